"""`pid-quota blocks`, `pid-quota inits` and `pid-quota why`."""
