"""Benchmarks: scripts whose last line of output is JSON, and the modules that they share."""
