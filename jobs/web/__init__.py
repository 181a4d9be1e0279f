"""`pid-quota console`."""
