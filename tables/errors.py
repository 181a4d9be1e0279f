"""The error tree of the tables."""


class TablesError(Exception):
    """Root of every error that the tables raise."""


class TableError(TablesError):
    """Raised when a table can't be made, read or written."""


class TableNotFoundError(TableError):
    """Raised when a table that is asked for does not exist."""


class TableVersionError(TableError):
    """Raised when a table is of a version that this one can't write."""


class QueryError(TablesError):
    """Raised when a query of `pid-quota sql` can't be answered."""


class CatalogError(TablesError):
    """Raised when the tables of a catalog can't be reached, or a statement on them fails."""


class NoSuchQuotaError(TablesError):
    """Raised when a quota is to be deleted that is not there."""


def first_line(error: BaseException) -> str:
    r"""Return what an error says first, or its class if it says nothing.

    Examples:
        >>> # Spark's parser begins with an empty line.
        >>> first_line(ValueError("\n[PARSE_SYNTAX_ERROR] at METRICS\n== SQL ==")), first_line(OSError())
        ('[PARSE_SYNTAX_ERROR] at METRICS', 'OSError')
    """
    return next(filter(None, map(str.strip, str(error).splitlines())), type(error).__name__)
