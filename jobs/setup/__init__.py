"""`pid-quota topics` and `pid-quota broker-jar`."""
