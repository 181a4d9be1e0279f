"""Errors of the commands."""


class JobError(Exception):
    """Raised when a command can't do its work."""


class AddressTakenError(JobError):
    """Raised when another process listens on an address. It may end."""


class WrongSettingError(JobError):
    """Raised when a command can't work with its settings, however often it is started."""
