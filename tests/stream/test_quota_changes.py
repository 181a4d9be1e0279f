"""Quotas that change while the stream runs, set and deleted by the code behind `pid-quota quotas`."""

from datetime import datetime, timezone

from tables.quotas.quota_entry import QuotaEntry
from tables.quotas.quota_table import delete_quota, set_quota
from tests.stream.stream_kit import Stream, event


def change(stream: Stream, name: str | None, rate: float) -> None:
    set_quota(stream.tables, QuotaEntry(name, rate, datetime.now(timezone.utc), "test"))


def latest(stream: Stream, principal: str = "User:mallory") -> dict[str, object]:
    rows = [row for row in stream.rows("producer_id_metrics") if row["principal"] == principal]
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


def test_a_lowered_quota_throttles_and_known_pids_stay_known(stream: Stream) -> None:
    change(stream, None, 100)
    with stream.running() as query:
        stream.batch(*[event(pid) for pid in range(50)])
        stream.wait_for(lambda: bool(latest(stream)), query)

        change(stream, "mallory", 1)
        known = [event(pid, at_ms=20_000) for pid in range(50)]
        stream.batch(*known, *[event(pid, at_ms=20_000) for pid in range(100, 110)])
        stream.wait_for(lambda: bool(stream.rows("throttle_decisions")), query)

    (decision,) = stream.rows("throttle_decisions")
    assert (decision["quota"], decision["refused_pids"]) == (1.0, 8)


def test_a_quota_that_is_raised_or_removed_ends_a_running_throttle_in_the_next_batch(stream: Stream) -> None:
    change(stream, "mallory", 3)
    with stream.running() as query:
        stream.batch(*[event(pid) for pid in range(10)])
        stream.wait_for(lambda: len(stream.rows("throttle_decisions")) == 1, query)

        change(stream, "mallory", 200)
        stream.batch(event(0, at_ms=5_000))
        stream.wait_for(lambda: len(stream.rows("throttle_decisions")) == 2, query)

        delete_quota(stream.tables, "mallory")
        stream.batch(event(0, at_ms=6_000))
        stream.wait_for(lambda: len(stream.rows("throttle_decisions")) == 3, query)

    told = [(row["action"], row["reason"], row["quota"]) for row in stream.rows("throttle_decisions")]
    assert told == [
        ("THROTTLE", "over_quota", 3.0),
        ("THROTTLE", "quota_changed", 200.0),
        ("RELEASE", "quota_changed", None),
    ]
