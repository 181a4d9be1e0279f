"""The stateful operator: ledgers in Spark's state, and the rows that come of them."""
