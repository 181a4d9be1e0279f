"""Where decisions come from, and where leases are kept: the lease topic, and tables by path or catalog."""
