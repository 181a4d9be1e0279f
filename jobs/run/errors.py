"""Errors of `pid-quota run`."""

from jobs.errors import JobError, WrongSettingError


class FolderTakenError(JobError):
    """Raised when the folder can't be used now: another `run` uses it, or its disk is full."""


class WrongFolderError(WrongSettingError):
    """Raised when the folder can't be used until a person changes it, or gives another."""


class PartFailedError(WrongSettingError):
    """Raised when a part can't run and a restart does not help."""


class PreparationFailedError(JobError):
    """Raised when the tables can't be prepared at the start."""
