"""Errors of `pid-quota run`."""

from jobs.errors import JobError, WrongSettingError


class FolderTakenError(JobError):
    """Raised when another `run` uses the folder."""


class PartFailedError(WrongSettingError):
    """Raised when a part can't run and a restart does not help."""


class PreparationFailedError(JobError):
    """Raised when the tables can't be prepared at the start."""
