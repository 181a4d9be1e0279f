"""What becomes of producer ids, as plain models: handed out (KIP-730, KIP-360), held and forgotten (KIP-854)."""
