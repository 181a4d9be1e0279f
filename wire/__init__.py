"""The contracts of our topics: their names, their records, and how pre-aggregated events are packed."""
