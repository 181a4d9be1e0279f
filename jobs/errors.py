"""The error tree of the commands."""


class JobError(Exception):
    """Root of every error raised by the commands themselves."""


class ConfigFileError(JobError):
    """Raised when a file of client settings can't be read."""


class QueryError(JobError):
    """Raised when a query of `pid-quota sql` can't be answered."""


class QuotaCommandError(JobError):
    """Raised when `pid-quota quotas` can't do what it is asked."""


class DemoError(JobError):
    """Raised when the demo can't run, or did not show what it has to."""


class EnforceError(JobError):
    """Raised when `pid-quota enforce` can't do what it is asked."""
