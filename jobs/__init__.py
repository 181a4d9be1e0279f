"""The commands of `pid-quota`: each parses its arguments, asks the packages below, and shows what they say."""

__version__ = "0.1.0"
