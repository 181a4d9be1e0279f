"""Entry points: each parses arguments and calls one function."""

__version__ = "0.1.0"
