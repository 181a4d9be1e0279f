"""The commands of `pid-quota`. A command parses options, calls other packages and prints the result."""

__version__ = "0.1.0"
