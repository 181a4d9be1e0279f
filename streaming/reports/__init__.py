"""Small queries that copy the taps' reports to tables, beside the stream."""
