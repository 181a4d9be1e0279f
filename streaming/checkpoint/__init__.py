"""This project's files in the checkpoint folder, and the checks before a stream starts."""
