"""Small queries beside the stream that copy the taps' reports to tables."""
