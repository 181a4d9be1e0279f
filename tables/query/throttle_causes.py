"""Diagnoses throttled principals by their clients' requests for producer ids."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from lifecycle.churn import diagnosis_text
from tables.errors import TablesError
from tables.query.churn_clients import diagnosis_of
from tables.query.sql_query import query

CLIENTS = """
SELECT *
FROM principal_churn
WHERE silent_seconds < 3600
ORDER BY new_pids DESC, client
"""


def looks_like(tables: str, principals: Collection[str], now: datetime) -> dict[str, str]:
    """Return the diagnosis of each principal as text.

    The client with the most new producer ids decides. Principals without new producer ids in the last hour are left
    out. If the tables can't be read, the result is empty.
    """
    if not principals:
        return {}
    try:
        rows = query(tables, CLIENTS, now).records()
    except TablesError:
        return {}
    return causes_of(rows, principals)


def causes_of(rows: Sequence[Mapping[str, Any]], principals: Collection[str]) -> dict[str, str]:
    """Return the texts of `looks_like`, from rows of `CLIENTS`."""
    wanted = [row for row in rows if row["principal"] in principals]
    # The last item of a dictionary wins, so reverse the rows to keep each principal's first row.
    return {row["principal"]: diagnosis_text(diagnosis_of(row)) for row in reversed(wanted)}
