"""The stateful operator: keeps ledgers in Spark's state and returns their rows."""
