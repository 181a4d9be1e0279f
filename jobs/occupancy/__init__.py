"""`pid-quota occupancy`."""
