"""Reads a broker's log: from files and topics, in order, line by line."""
