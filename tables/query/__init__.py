"""Queries of the tables and of the views of `sql`."""
