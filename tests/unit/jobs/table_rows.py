"""Rows of the tables, with defaults for the values that a test does not set."""

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from tables.schema.specs import TABLES
from tables.store.path_tables import create_missing, table_path

NOON = datetime(2026, 1, 15, 12, tzinfo=timezone.utc)
Row = dict[str, Any]


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def append(tables: str | Path, name: str, *rows: Row) -> None:
    create_missing(str(tables))
    table = pa.Table.from_pylist(list(rows), schema=TABLES[name].schema)
    write_deltalake(table_path(str(tables), name), table, mode="append")


def metrics(principal: str, window_end: datetime, **values: Any) -> Row:
    row = {
        "principal": principal,
        "window_end": window_end,
        "as_of": window_end,
        "rate": 1.0,
        "tokens": 10.0,
        "throttle_time_ms": 0,
        "throttle_time_avg_ms": None,
        "new_pids_window": 0,
        "quota": 100.0,
        "burst": None,
        "quota_source": "default",
        "admitted_pids": 0,
        "refused_pids": 0,
        "owed_pids": 0,
        "late_pids": 0,
        "active_pids": 0,
        "layers": 1,
        "state_bytes": 100,
        "phase": "enforcing",
        "saturated": False,
        "pid_uses": None,
        "pid_uses_one_in": None,
        "batch_id": 0,
    }
    assert set(values) <= set(row)
    return row | values


def decision(principal: str, decided_at: datetime, **values: Any) -> Row:
    row = {
        "decision_id": f"{principal}/{decided_at:%H%M%S}",
        "principal": principal,
        "action": "THROTTLE",
        "decided_at": decided_at,
        "throttle_time_ms": 60_000,
        "throttled_until": decided_at + seconds(60),
        "tokens": -1.0,
        "rate": 1.0,
        "quota": 60.0,
        "burst": None,
        "quota_source": "default",
        "quota_updated_at": None,
        "refused_pids": 1,
        "sample_pids": [1, 2],
        "client_ids": [("rdkafka", 1)],
        "addresses": [("10.0.0.7", 1)],
        "batch_id": 0,
        "reason": "over_quota",
    }
    assert set(values) <= set(row)
    return row | values


def broker_state(broker_id: int, reported_at: datetime | None, **values: Any) -> Row:
    row = {
        "broker_id": broker_id,
        "seen_at": reported_at,
        "reported_at": reported_at,
        "run": "00000000000000ff",
        "plugin_version": "0.3.0",
        "kafka_version": "4.3.1",
        "events": 5,
        "dropped_events": 0,
        "waiting_pids": 0,
        "next_producer_id": 5000,
        "repeat_ms": 10_000,
        "has_authorizer": True,
        "problem": None,
        "stopped": False,
        "batch_id": 0,
    }
    assert set(values) <= set(row)
    return row | values


def hold_fact(state: str, recorded_at: datetime, principal: str | None = "User:m", **values: Any) -> Row:
    """A row of `holds`. It lasts a minute. A row of a broker also has `broker_id` and `since`."""
    row = {
        "recorded_at": recorded_at,
        "state": state,
        "principal": principal,
        "decision_id": "decision",
        "broker_id": None,
        "since": None,
        "until": recorded_at + seconds(60),
        "writer": "stream",
        "reason": None,
        "init_every_ms": None,
        "held_requests": None,
        "let_in": None,
        "batch_id": 0,
    }
    assert set(values) <= set(row)
    return row | values


def confirmed(broker_id: int, recorded_at: datetime, principal: str = "User:m", **values: Any) -> Row:
    """A broker's report that a hold is in force there."""
    usual = {"since": recorded_at, "held_requests": 0, "let_in": 0}
    return hold_fact("in_force", recorded_at, principal, broker_id=broker_id, **usual | values)


def quarantined(record_timestamp: datetime, **values: Any) -> Row:
    row = {
        "value": b"x",
        "reason": "not_json",
        "topic": "produce-events",
        "partition": 0,
        "offset": 1,
        "record_timestamp": record_timestamp,
        "batch_id": 0,
    }
    assert set(values) <= set(row)
    return row | values
