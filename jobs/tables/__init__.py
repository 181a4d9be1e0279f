"""The tables for people: SQL over them, their views, and their upkeep."""
