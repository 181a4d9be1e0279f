"""Turns throttle decisions into what the brokers enforce, and ends it in time."""
