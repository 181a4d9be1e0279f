"""Errors of the commands."""


class JobError(Exception):
    """Raised when a command can't do its work."""
