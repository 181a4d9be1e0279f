"""The contracts of our topics: their names, the records in them, and how tallied events are packed.

Whoever writes them and whoever reads them finds them here, so that neither imports the other.
"""
