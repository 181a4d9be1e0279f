"""The stateful operator: ledgers in Spark's state, and the rows that they produce."""
