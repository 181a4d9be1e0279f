"""`pid-quota occupancy`: what brokers hold of producers."""
