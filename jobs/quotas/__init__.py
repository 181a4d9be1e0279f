"""`pid-quota quotas` and `pid-quota suggest-quotas`."""
