"""Rows of `producer_inits` and `pid_blocks`, written by hand: what a test does not name gets a harmless value."""

from datetime import datetime, timedelta, timezone

from tests.unit.jobs.table_rows import append

NOW = datetime.now(timezone.utc).replace(microsecond=0)
"""The commands read the real clock, so their rows are of a moment ago."""


def ago(seconds):
    return NOW - timedelta(seconds=seconds)


def init(answered_at, result_producer_id, **values):
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
        "repeated": False,
        "batch_id": 0,
    }
    assert set(values) <= set(row)
    return row | values


def failed_init(answered_at, error, **values):
    return init(answered_at, -1, result_producer_epoch=-1, error=error, **values)


def block_row(first, allocated_at, **values):
    row = {
        "broker_id": 1,
        "broker_epoch": 5,
        "first_producer_id": first,
        "length": 1000,
        "allocated_at": allocated_at,
        "error": "NONE",
        "throttle_time_ms": 0,
        "batch_id": 0,
    }
    assert set(values) <= set(row)
    return row | values


def failed_block(allocated_at, error, **values):
    return block_row(-1, allocated_at, length=0, error=error, **values)


def append_kip_tables(tables, *, inits=(), blocks=(), decisions=()):
    append(tables, "producer_inits", *inits)
    append(tables, "pid_blocks", *blocks)
    append(tables, "throttle_decisions", *decisions)
