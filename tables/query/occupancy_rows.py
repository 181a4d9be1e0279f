"""Writes and reads rows of `producer_occupancy`: the producer ids that brokers held."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from itertools import zip_longest
from typing import Any

from lifecycle.occupancy import Census, Occupancy
from lifecycle.occupancy_rate import EarlierCensus
from tables.query.sql_query import query
from tables.store.open import open_store
from tables.times import to_ms, to_time

TABLE = "producer_occupancy"

_EARLIER = """
SELECT swept_at, broker_id, held_pids, open_transactions, idle_hours
FROM producer_occupancy
WHERE missing_replicas = 0 AND unix_millis(swept_at) > :after_ms
"""
_DAY = timedelta(days=1)


def rows_of(
    census: Census, occupancy: Sequence[Occupancy], missing: Mapping[int, int], brokers: Sequence[int]
) -> list[dict[str, Any]]:
    """Return the rows for a census of the producer ids that brokers hold.

    Args:
        census: Answers of the brokers.
        occupancy: Result of `count_occupancy`.
        missing: Number of replicas without an answer, by broker.
        brokers: Brokers that were asked. A broker that holds no producer ids gets an empty row. A broker that did not
            answer gets no row.
    """
    seen = {each.broker_id for each in occupancy}
    nothing = [
        Occupancy(broker_id, "", "", 0, 0, 0, ())
        for broker_id in brokers
        if broker_id not in seen and not missing.get(broker_id)
    ]
    return [
        {
            "swept_at": to_time(census.taken_at_ms),
            **asdict(each),
            "topic": each.topic or None,
            "principal": each.principal or None,
            "estimated_bytes": census.bytes_of(each.held_pids),
            "expiration_ms": census.expirations_ms[each.broker_id],
            "missing_replicas": missing.get(each.broker_id, 0),
        }
        for each in [*occupancy, *nothing]
    ]


def append(tables: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append rows. If `tables` is a folder, create missing tables.

    Raises:
        TableError: If the rows can't be written.
    """
    with open_store(tables) as store:
        store.ensure_tables()
        store.append(TABLE, rows)


def read_earlier(tables: str, now: datetime) -> dict[int, list[EarlierCensus]]:
    """Return each broker's censuses of the last 24 hours, except incomplete censuses.

    Raises:
        TableNotFoundError: If the table does not exist yet.
        TableError: If the table can't be read.
    """
    after_ms = to_ms((now - _DAY).astimezone(timezone.utc))
    sweeps: dict[tuple[int, datetime], list[dict[str, Any]]] = defaultdict(list)
    for row in query(tables, _EARLIER, now, {"after_ms": after_ms}).records():
        sweeps[row["broker_id"], row["swept_at"]].append(row)
    found: dict[int, list[EarlierCensus]] = defaultdict(list)
    for (broker_id, swept_at), rows in sweeps.items():
        found[broker_id].append(
            EarlierCensus(
                (now - swept_at) // timedelta(milliseconds=1),
                sum(row["held_pids"] for row in rows),
                sum(row["open_transactions"] for row in rows),
                tuple(_sums(row["idle_hours"] for row in rows)),
            )
        )
    return dict(found)


def _sums(histograms: Iterator[Sequence[int]]) -> Iterator[int]:
    return (sum(counts) for counts in zip_longest(*histograms, fillvalue=0))
