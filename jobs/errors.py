"""The error tree of the commands."""


class JobError(Exception):
    """Root of every error raised by the commands themselves."""


class ForeignPackageError(JobError):
    """Raised when another library's module is found where one of ours should be."""


class ConfigFileError(JobError):
    """Raised when a file of client settings can't be read."""


class QuotaCommandError(JobError):
    """Raised when `pid-quota quotas` can't do what it is asked."""


class DemoError(JobError):
    """Raised when the demo can't run, or did not show what it has to."""


class SuggestError(JobError):
    """Raised when `pid-quota suggest-quotas` has nothing to suggest, or can't write it."""


class BlocksError(JobError):
    """Raised when `pid-quota blocks` can't say what it is asked."""


class WhyError(JobError):
    """Raised when `pid-quota why` knows nothing of whom it is asked about."""


class MetricsError(JobError):
    """Raised when metrics can't be served."""
