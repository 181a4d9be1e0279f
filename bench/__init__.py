"""Benchmarks: scripts whose last line is JSON, and what they share."""
