"""The table of quotas."""
