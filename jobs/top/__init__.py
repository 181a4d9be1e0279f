"""`pid-quota top`: the principals live in a terminal."""
