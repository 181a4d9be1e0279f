"""The table `producer_occupancy`: what brokers held of producers at each sweep."""
