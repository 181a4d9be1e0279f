"""The life cycle of producer ids, as plain models: blocks (KIP-730), memory and expiry (KIP-854), churn (KIP-360)."""
