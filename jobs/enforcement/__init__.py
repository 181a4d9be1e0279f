"""The commands `release` and `hold`."""
