"""Enforcement: decides who is on hold (`plan`), writes it to `pid-quota-holds`, and sees what brokers do."""
