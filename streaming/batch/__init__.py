"""Metadata of a batch: files in the checkpoint that the driver writes and the tasks read."""
