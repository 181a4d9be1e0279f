"""`pid-quota demo`."""
