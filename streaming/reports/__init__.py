"""A small query that copies the plugins' reports to tables, beside the stream."""
