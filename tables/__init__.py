"""Creates, reads, writes and compacts the Delta tables without Spark."""
