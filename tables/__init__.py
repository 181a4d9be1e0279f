"""The Delta tables without Spark: their columns, and code that creates, reads, appends to and compacts them."""
