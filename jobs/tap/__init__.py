"""`pid-quota tap` and its sub-commands."""
