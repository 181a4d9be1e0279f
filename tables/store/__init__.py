"""Reads, writes and keeps up the tables, in a folder or in a catalog."""
