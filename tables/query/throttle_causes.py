"""Diagnoses throttled principals by their clients' requests for producer ids."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from lifecycle.churn import diagnosis_text
from tables.query.churn_clients import diagnosis_of

CLIENTS = """
SELECT *
FROM principal_churn
WHERE silent_seconds < 3600
ORDER BY new_pids DESC, client
"""


def causes_of(rows: Sequence[Mapping[str, Any]], principals: Collection[str]) -> dict[str, str]:
    """Return the diagnosis of each principal as text, from rows of `CLIENTS`.

    The client with the most new producer ids decides. Principals without new producer ids in the last hour
    are left out.
    """
    wanted = [row for row in rows if row["principal"] in principals]
    # The last item of a dictionary wins, so reverse the rows to keep each principal's first row.
    return {row["principal"]: diagnosis_text(diagnosis_of(row)) for row in reversed(wanted)}
