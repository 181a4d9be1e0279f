"""Reads lines from files and topics, and blocks of producer ids from the metadata log."""
