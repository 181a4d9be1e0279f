"""`pid-quota tables` and `pid-quota sql`."""
