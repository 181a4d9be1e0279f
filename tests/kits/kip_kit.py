"""Rows of `producer_inits` and `pid_blocks` with harmless defaults."""

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from functools import cache
from pathlib import Path
from typing import Any

from tests.unit.jobs.table_rows import Row, append


@cache
def now() -> datetime:
    """One moment for all rows of a test; `conftest.py` forgets it after each, as the commands read the real clock."""
    return datetime.now(timezone.utc).replace(microsecond=0)


def ago(seconds: float) -> datetime:
    return now() - timedelta(seconds=seconds)


def init(answered_at: datetime, result_producer_id: int, **values: Any) -> Row:
    row = {
        "answered_at": answered_at,
        "broker_id": 1,
        "principal": "User:alice",
        "client_id": "app",
        "client_host": "10.0.0.1",
        "transactional_id": None,
        "producer_id": -1,
        "producer_epoch": -1,
        "result_producer_id": result_producer_id,
        "result_producer_epoch": 0,
        "error": "NONE",
        "batch_id": 0,
    }
    assert set(values) <= set(row)
    return row | values


def deploys(principal: str, newest_at: datetime) -> list[Row]:
    """New producer ids of three deploys of eight pods behind one address, three hours apart."""
    return [
        init(newest_at - timedelta(seconds=10_800 * (pod // 8) + 7 - pod % 8), 5_000 + pod, principal=principal)
        for pod in range(24)
    ]


def failed_init(answered_at: datetime, error: str, **values: Any) -> Row:
    return init(answered_at, -1, result_producer_epoch=-1, error=error, **values)


def block_row(first: int, allocated_at: datetime, **values: Any) -> Row:
    row = {
        "broker_id": 1,
        "broker_epoch": 5,
        "first_producer_id": first,
        "length": 1000,
        "allocated_at": allocated_at,
        "batch_id": 0,
    }
    assert set(values) <= set(row)
    return row | values


def append_kip_tables(
    tables: str | Path, *, inits: Sequence[Row] = (), blocks: Sequence[Row] = (), decisions: Sequence[Row] = ()
) -> None:
    append(tables, "producer_inits", *inits)
    append(tables, "pid_blocks", *blocks)
    append(tables, "throttle_decisions", *decisions)
