"""What stands beside Spark's own files in a checkpoint, and what belongs together."""
