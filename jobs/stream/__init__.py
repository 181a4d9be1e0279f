"""`pid-quota stream`: the Structured Streaming job."""
