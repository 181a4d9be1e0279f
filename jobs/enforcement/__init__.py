"""`pid-quota enforce`, its tables, and whom it tells."""
