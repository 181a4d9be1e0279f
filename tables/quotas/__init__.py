"""The table of quotas: its rows, and how they are set and read."""
