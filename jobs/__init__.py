"""The commands of `pid-quota`. Each parses its options, calls the other packages, and prints the result."""

__version__ = "0.1.0"
