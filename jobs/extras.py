"""Which extra of the wheel brings a module that a command misses."""

import importlib.util
from collections.abc import Sequence

OF_TABLES = frozenset(
    {
        "datasketches",
        "deltalake",
        "duckdb",
        "numpy",
        "pandas",
        "pyarrow",
        "rbloom",
        "starlette",
        "textual",
        "urllib3",
        "uvicorn",
    }
)
"""Modules of the extra `tables` of `pyproject.toml`."""

_ON_SPARK = {"stream", "demo"}


def missing_extra(error: BaseException, arguments: Sequence[str]) -> str:
    """Return a sentence that says what to install; empty if the error is another one.

    Args:
        error: What a command raised.
        arguments: Its command line, without the program's name.

    Examples:
        >>> missing_extra(ModuleNotFoundError(name="duckdb"), ["sql"])
        "this command needs duckdb, which is not installed: pip install 'pid-quota[tables]'"
        >>> missing_extra(ModuleNotFoundError(name="duckling"), ["sql"])
        ''
    """
    module = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if module not in OF_TABLES:
        return ""
    wants_spark = bool(_ON_SPARK & set(arguments)) and importlib.util.find_spec("pyspark") is None
    extra = "local" if wants_spark else "tables"
    return f"this command needs {module}, which is not installed: pip install 'pid-quota[{extra}]'"
