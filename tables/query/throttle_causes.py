"""Says what a throttled principal's clients look like, by their requests for producer ids: perhaps it is a deploy."""

from collections.abc import Collection
from datetime import datetime

from lifecycle.churn import diagnosis_text
from tables.errors import TablesError
from tables.query.churn_clients import diagnosis_of
from tables.query.literals import literal
from tables.query.sql_query import query

_CLIENTS = """
SELECT *
FROM principal_churn
WHERE principal IN ({principals}) AND silent_seconds < 3600
ORDER BY new_pids DESC, client
"""


def looks_like(tables: str, principals: Collection[str], now: datetime) -> dict[str, str]:
    """Return the diagnosis in words, with its confidence, of principals with new producer ids in the last hour.

    Of several clients the one with most new producer ids counts. Principals without known requests are missing, and so
    are all if the tables of requests can't be read: a diagnosis informs, nothing waits for it.

    Args:
        tables: Folder of the tables, or `catalog.schema`.
        principals: KafkaPrincipals.
        now: Our clock.
    """
    if not principals:
        return {}
    names = ", ".join(literal(each, tables) for each in sorted(principals))
    try:
        rows = query(tables, _CLIENTS.format(principals=names), now).records()
    except TablesError:
        return {}
    # The first of a principal stays.
    return {row["principal"]: diagnosis_text(diagnosis_of(row)) for row in reversed(rows)}
