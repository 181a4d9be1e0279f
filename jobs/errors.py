"""Errors of the commands."""


class JobError(Exception):
    """Base class of the commands' own errors."""


class ForeignPackageError(JobError):
    """Raised when another library's module is found where one of ours should be."""


class QuotaCommandError(JobError):
    """Raised when `pid-quota quotas` gets invalid quotas or files."""


class DemoError(JobError):
    """Raised when the demo can't run, or its outcome is wrong."""


class SuggestError(JobError):
    """Raised when `pid-quota suggest-quotas` has nothing to suggest, or can't write it."""


class BlocksError(JobError):
    """Raised when `pid-quota blocks` knows no block of a producer id."""


class WhyError(JobError):
    """Raised when `pid-quota why` knows nothing about a principal."""


class MetricsError(JobError):
    """Raised when metrics can't be served."""
