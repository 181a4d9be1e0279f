"""Writes the operator's output to the tables exactly once."""
