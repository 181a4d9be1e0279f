"""Errors of the tables."""

from importlib import metadata


class TablesError(Exception):
    """Base class of the errors of this package."""


class TableError(TablesError):
    """Raised when a table can't be created, read or written."""


class TableNotFoundError(TableError):
    """Raised when a table does not exist."""


class TableVersionError(TableError):
    """Raised when a newer release of pid-quota created a table."""


class TableFeatureError(TableError):
    """Raised when a table outside of a catalog has a Delta feature that pid-quota does not read."""


class QueryError(TablesError):
    """Raised when a query is invalid or fails."""


class CatalogError(TableError):
    """Raised when a catalog can't be reached or rejects a statement."""


class NoSuchQuotaError(TablesError):
    """Raised when the quota to delete does not exist."""


def first_line(error: BaseException) -> str:
    r"""Return the first non-empty line of an error's message, or the error's class if the message is empty.

    Examples:
        >>> # Spark's parser begins with an empty line.
        >>> first_line(ValueError("\n[PARSE_SYNTAX_ERROR] at METRICS\n== SQL ==")), first_line(OSError())
        ('[PARSE_SYNTAX_ERROR] at METRICS', 'OSError')
    """
    return next(filter(None, map(str.strip, str(error).splitlines())), type(error).__name__)


def install_command(extra: str) -> str:
    """Return the command that installs an extra from a wheel, because anybody may register `pid-quota` on PyPI."""
    return f"pip install 'pid_quota-{metadata.version('pid-quota')}-py3-none-any.whl[{extra}]'"
