"""`pid-quota top`."""
