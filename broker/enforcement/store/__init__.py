"""Reads decisions and stores leases."""
