"""Fetches pinned jars, finds Java, builds the jar for brokers, and starts child processes."""
