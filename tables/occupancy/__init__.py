"""The table of what brokers hold of producers: written after each sweep, read as history."""
