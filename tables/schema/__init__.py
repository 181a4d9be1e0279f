"""Columns of the tables, their DDL, and the views."""
