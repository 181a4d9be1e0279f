"""Enforces throttle decisions on the brokers, and ends each throttle in time.

A lease is an enforced decision: a setting that a lever makes on the brokers until a time (see `model`).
"""
