"""SQL views and queries, shipped as package data."""
