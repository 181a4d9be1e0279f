"""The levers, one module each."""
