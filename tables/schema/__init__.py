"""Columns of the tables, their DDL, and the columns that earlier versions lack."""
