"""Reads what stands between a principal and new producer ids: a hold, a release, or the stream's plan."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tables.query.sql_query import query

HOLD = "SELECT * FROM hold_status WHERE principal = :principal"


def principal_hold(tables: str, principal: str, now: datetime) -> Mapping[str, Any] | None:
    """Return the principal's row of the view `hold_status`; None if nothing holds it and no plan names it.

    Raises:
        TableError: If a table can't be read.
    """
    return next(iter(query(tables, HOLD, now, {"principal": principal}).records()), None)
