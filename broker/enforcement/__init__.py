"""Enforces throttle decisions on the brokers, and ends each throttle in time."""
