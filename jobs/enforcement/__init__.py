"""`pid-quota enforce`."""
