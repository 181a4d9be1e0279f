"""The tables of a catalog, by SQL: in a Databricks runtime, or by a warehouse."""
