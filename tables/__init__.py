"""The Delta tables without Spark: what they hold, how they are made, read, appended to and kept small."""
