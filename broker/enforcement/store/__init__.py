"""Reads decisions and stores leases: the lease topic, and tables by path or catalog."""
