"""Tables of a catalog, by SQL in a Databricks runtime or on a SQL warehouse."""
