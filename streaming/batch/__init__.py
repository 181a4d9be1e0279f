"""Metadata of a batch, in files that the driver writes to the checkpoint and the tasks read."""
