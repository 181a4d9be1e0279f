"""`pid-quota quotas`."""
