"""`pid-quota console`: the tables in the browser."""
