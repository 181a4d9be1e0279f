"""Quotas that change while the stream runs, set and deleted by the code behind `pid-quota quotas`."""

import time
from datetime import datetime, timedelta, timezone
from typing import Any

from broker.enforcement.enforcer import Decisions
from jobs.stream.enforcing import decision_of
from tables.query.sql_query import query as query_tables
from tables.quotas.quota_entry import QuotaEntry
from tables.quotas.quota_table import delete_quota, set_quota
from tables.times import to_ms
from tests.kits.stream_kit import START_MS, Stream, event


def change(stream: Stream, name: str | None, rate: float) -> None:
    set_quota(stream.tables, QuotaEntry(name, rate, datetime.now(timezone.utc), "test"))


def latest(stream: Stream) -> dict[str, object]:
    rows = [row for row in stream.rows("producer_id_metrics") if row["principal"] == "User:mallory"]
    return rows[-1] if rows else {}


def test_each_change_acts_in_the_next_batch_of_the_running_stream(stream: Stream) -> None:
    first_pid = 0

    def quota_seen(at_ms: int) -> tuple[object, object]:
        nonlocal first_pid
        before = stream.offset
        stream.batch(event(first_pid, at_ms=at_ms))
        first_pid += 1
        batches = before + 1
        stream.wait_for(lambda: len(stream.rows("producer_id_metrics")) >= batches, query)
        return latest(stream)["quota"], latest(stream)["quota_source"]

    with stream.running() as query:
        assert quota_seen(0) == (None, "none")

        change(stream, None, 50)
        assert quota_seen(1000) == (50.0, "default")

        change(stream, "mallory", 10)
        assert quota_seen(2000) == (10.0, "user")

        change(stream, "mallory", 2000)
        assert quota_seen(3000) == (2000.0, "user")

        change(stream, "mallory", 5)
        assert quota_seen(4000) == (5.0, "user")

        delete_quota(stream.tables, "mallory")
        assert quota_seen(5000) == (50.0, "default")

        delete_quota(stream.tables, None)
        assert quota_seen(6000) == (None, "none")


def test_a_silent_principal_s_throttle_ends_with_the_next_batch_under_a_raised_or_removed_quota(stream: Stream) -> None:
    def now_ms() -> int:
        return time.time_ns() // 1_000_000

    def batch(principal: str, pids: int) -> None:
        at_ms = now_ms()
        events = [event(pid, principal, at_ms=at_ms - START_MS) for pid in range(pids)]
        stream.batch_at(at_ms, *events)

    def row(number: int) -> dict[str, Any]:
        stream.wait_for(lambda: len(stream.rows("throttle_decisions")) >= number, query)
        rows = stream.rows("throttle_decisions")
        # Then the view and the enforcing thread go by it.
        (view,) = query_tables(stream.tables, "TABLE current_throttles", datetime.now(timezone.utc)).records()
        assert view["throttled_until"] == rows[-1]["throttled_until"]
        decisions, times = Decisions(), ("decided_at", "throttled_until")
        in_ms = [each | {name: to_ms(each[name]) for name in times} for each in rows]
        decisions.see(map(decision_of, in_ms), None, is_committed_now=False)
        assert decisions.newest["User:mallory"].throttled_until_ms == in_ms[-1]["throttled_until"]
        return rows[-1] | {"throttled_now": view["throttled_now"]}

    # Given a user who owes two PIDs, is throttled for forty minutes, and then silent.
    change(stream, "mallory", 3)
    with stream.running() as query:
        batch("User:mallory", 5)
        first = row(1)

        # When the quota is raised, and somebody else sends events.
        change(stream, "mallory", 12)
        batch("User:alice", 1)
        raised = row(2)

        delete_quota(stream.tables, "mallory")
        batch("User:alice", 2)
        removed = row(3)

    # Then a fourth of the time is left, to a tick.
    assert (raised["reason"], raised["quota"], raised["throttled_now"]) == ("quota_changed", 12.0, True)
    rest = first["throttled_until"] - raised["decided_at"]
    assert abs((raised["throttled_until"] - raised["decided_at"]) - rest / 4) <= timedelta(seconds=10)
    assert (removed["action"], removed["reason"], removed["throttled_now"]) == ("RELEASE", "quota_changed", False)
