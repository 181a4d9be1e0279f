"""The command `pid-quota inits`."""

from datetime import datetime, timezone
from typing import Annotated

import typer

from jobs.options import CsvOption, JsonOption, PrincipalOption, TablesOption, full_name
from jobs.output.tables_out import form, show
from tables.query.sql_query import query
from tables.store.values import Answer

_DAY = """
SELECT * FROM init_outcomes WHERE {condition} ORDER BY answers DESC, principal, client_id, outcome
"""
_NEWEST = """
SELECT answered_at, broker_id, principal, client_id, client_host, transactional_id, producer_id, producer_epoch,
    result_producer_id, result_producer_epoch, error, outcome
FROM classified_inits
WHERE {condition}
ORDER BY answered_at DESC
LIMIT {limit}
"""


def inits(
    tables: TablesOption,
    principal: PrincipalOption = None,
    last: Annotated[
        int | None, typer.Option(min=1, help="Show the last answers one by one instead of the outcome of a day.")
    ] = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Show the outcome of the last 24 hours' requests for producer ids: first ids, epoch bumps, errors."""
    wanted = form(as_json=as_json, as_csv=as_csv)
    now = datetime.now(timezone.utc)
    condition = "TRUE" if principal is None else "principal = :principal"
    values = {} if principal is None else {"principal": full_name(principal)}
    if last is None:
        answer = query(tables, _DAY.format(condition=condition), now, values)
    else:
        newest = query(tables, _NEWEST.format(condition=condition, limit=last), now, values)
        answer = Answer(newest.columns, newest.rows[::-1])
    show(answer, wanted)
