"""The contracts of our topics: their names, their records, and how pre-aggregated events are packed.

Shared by writers and readers, so that neither imports the other.
"""
