"""`pid-quota why`."""
