"""Reads lines of the class in a broker from files and topics, and blocks of producer ids from the metadata log."""
