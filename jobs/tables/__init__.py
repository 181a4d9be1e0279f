"""`pid-quota tables`, `pid-quota sql` and `pid-quota maintain`."""
