"""`pid-quota events` and `pid-quota decisions`."""
