"""Enforces throttle decisions on the brokers by leases (see `model`)."""
