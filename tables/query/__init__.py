"""Queries over the tables and the views of `sql`."""
