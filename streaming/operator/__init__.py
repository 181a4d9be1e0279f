"""The stateful operator, which keeps ledgers in Spark's state."""
