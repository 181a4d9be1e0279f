"""Metadata of a batch. The driver writes files to the checkpoint, and the tasks read them."""
