"""Reads, writes and maintains the tables, in a folder or in a catalog."""
