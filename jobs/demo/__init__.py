"""`pid-quota demo`, and what it is made of."""
