"""Our files in the checkpoint folder, beside Spark's own, and the checks before a stream starts."""
