"""The commands of `pid-quota`: each parses its options, calls the packages below, and prints the result."""

__version__ = "0.1.0"
