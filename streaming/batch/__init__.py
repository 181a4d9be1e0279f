"""What driver and tasks share about a batch: files in the checkpoint that the driver writes and the tasks read."""
