"""Ends running throttles early once a quota was raised or removed, also of principals that send no event.

The ledger of a silent principal is not called. So the driver writes the decision itself, from the newest row of the
table, in the first batch under the new quotas. Views, enforcer and console then see the same end.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from quota.decision import Action, decision_id
from quota.limits import Limit
from streaming.checkpoint.batch_quotas import Quotas
from streaming.checkpoint.table_rows import rows_since
from tables.times import to_ms, to_time

_TABLE = "throttle_decisions"
_KEPT = ("principal", "broker_id", "rate", "refused_pids", "sample_pids")


def decisions_since(spark: SparkSession, tables: str, now_ms: int) -> list[dict[str, Any]]:
    """Return all rows since the earliest decision that may still be in force at a time.

    Raises:
        TableError: If the table can't be read.
    """
    running = rows_since(spark, tables, _TABLE, "throttled_until", to_time(now_ms))
    first = min((row["decided_at"] for row in running), default=None)
    return [] if first is None else rows_since(spark, tables, _TABLE, "decided_at", first)


def shortened(rows: Iterable[Mapping[str, Any]], quotas: Quotas, now_ms: int) -> list[dict[str, Any]]:
    """Return decisions that end running throttles earlier under other quotas, as bodies of `throttle_decisions`.

    Args:
        rows: All rows since the earliest decision that may be in force.
        quotas: The quotas in force.
        now_ms: When the batch began, in milliseconds since the epoch.
    """
    newest: dict[tuple[str, int | None], Mapping[str, Any]] = {}
    for row in sorted(rows, key=lambda row: (row["decided_at"], row["batch_id"] or 0, row["action"])):
        newest[row["principal"], row["broker_id"]] = row
    found = (_shortened(row, quotas.limit(row["principal"]), now_ms) for row in newest.values())
    return [each for each in found if each is not None]


def _shortened(row: Mapping[str, Any], limit: Limit, now_ms: int) -> dict[str, Any] | None:
    decided_ms, until_ms = to_ms(row["decided_at"]), to_ms(row["throttled_until"])
    at_ms, before, rate = max(now_ms, decided_ms), row["quota"], limit.producer_ids_rate
    if row["action"] != "THROTTLE" or before is None or (rate is not None and rate <= before):
        return None
    # Time until tokens reach 0: under the earlier quota, then under the new one.
    rest_ms = max(0, decided_ms + row["throttle_time_ms"] - at_ms)
    left_ms = 0 if rate is None else -int(-rest_ms * before // rate)
    if at_ms + left_ms >= until_ms:
        return None
    action: Action = "THROTTLE" if left_ms else "RELEASE"
    return {name: row[name] for name in _KEPT} | {
        "decision_id": decision_id(row["decision_id"], row["broker_id"], limit.updated_at_ms or 0, 0, action),
        "action": action,
        "reason": "quota_changed",
        "decided_at": at_ms,
        "throttle_time_ms": left_ms,
        "throttled_until": at_ms + left_ms,
        "tokens": None if rate is None else row["tokens"] * rest_ms / max(1, row["throttle_time_ms"]),
        "quota": rate,
        "quota_source": limit.source,
        "quota_updated_at": limit.updated_at_ms,
        "client_ids": dict(row["client_ids"] or ()),
        "addresses": dict(row["addresses"] or ()),
    }


def without_those_of(rows: Iterable[dict[str, Any]], own: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Leave out rows of ledgers that decided in this batch themselves."""
    keys = {(row["principal"], row["broker_id"]) for row in own}
    return [row for row in rows if (row["principal"], row["broker_id"]) not in keys]
