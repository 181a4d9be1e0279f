"""What connects a stream to its metrics: throttles of its earlier run, and Spark's progress."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from prometheus_client import CollectorRegistry
from pyspark import cloudpickle

from jobs.stream.narration import Narrator
from jobs.stream.stream_metrics import STREAM_QUERY, StreamMetrics, Totals
from jobs.stream.stream_watch import Observer, Watch, reported
from quota.config import QuotaConfig
from streaming.commit.sinks import BatchSummary
from streaming.listener import Progress
from tables.store.open import open_store
from tables.times import to_ms
from tests.unit.jobs.table_rows import NOON, Row, append, decision

if TYPE_CHECKING:
    from collections.abc import Callable

HOUR = timedelta(hours=1)


class Restarted:
    """A watch with a clock of its own, and the lines that its narrator has printed."""

    def __init__(self, tables: Path) -> None:
        self.now, self.lines = NOON, list[str]()
        self.metrics = StreamMetrics(QuotaConfig(), clock_ms=lambda: to_ms(self.now))
        narrator = Narrator(
            self.metrics.totals,
            window_seconds=3600,
            clock_s=lambda: to_ms(self.now) / 1000,
            say=lambda text, _at_s: self.lines.append(text),
        )
        self.watch = Watch(self.metrics, narrator)
        self._tables = tables

    def restore(self, *decisions: Row) -> Totals:
        append(self._tables, "throttle_decisions", *decisions)
        with open_store(str(self._tables)) as store:
            self.watch.restore(store, self.now)
        return self.metrics.totals()

    def value(self, name: str, **labels: str) -> float | None:
        registry = CollectorRegistry()
        registry.register(self.metrics)
        return registry.get_sample_value(name, labels)


@pytest.fixture
def restarted(tmp_path: Path) -> Restarted:
    return Restarted(tmp_path)


def throttle(principal: str, decided_at: datetime, until: datetime) -> Row:
    return decision(principal, decided_at, throttled_until=until)


def test_the_throttles_in_force_are_restored_and_not_counted_as_new(restarted: Restarted) -> None:
    in_force = throttle("User:a", NOON - 9 * 24 * HOUR, NOON + HOUR)
    over = throttle("User:b", NOON - HOUR, NOON - timedelta(seconds=1))

    assert restarted.restore(in_force, over) == Totals(principals=0, throttled=1)
    assert restarted.value("pid_quota_throttles_in_force", user="a") == 1
    assert restarted.value("pid_quota_decisions_total", action="THROTTLE") == 0


def test_batches_and_idle_times_reach_the_metrics_and_the_lines(restarted: Restarted) -> None:
    watch = restarted.watch
    row = throttle("User:a", NOON, NOON + HOUR)
    times = {name: to_ms(row[name]) for name in ("decided_at", "throttled_until")}
    watch.observe(BatchSummary(7, {"throttle_decisions": [row | times]}, 0.1))
    watch.report(Progress(STREAM_QUERY, 7, 0.5, 6000, 0, 24, 1000))
    restarted.now += timedelta(minutes=1)
    watch.idle(STREAM_QUERY)

    assert restarted.value("pid_quota_stream_heard_timestamp_seconds", query=STREAM_QUERY) == restarted.now.timestamp()
    assert [line.split(": ")[0] for line in restarted.lines] == [
        "first decision",
        "100 records/s, 0 records behind, longest batch 0.5 s, 0 active principals, 1 throttled, 1 new decision",
    ]


def test_the_copy_in_the_server_of_spark_connect_tells_nobody(restarted: Restarted) -> None:
    dumps: Callable[[object], bytes] = cloudpickle.dumps
    row = throttle("User:a", NOON, NOON + HOUR)
    batch = BatchSummary(0, {"throttle_decisions": [row | {"throttled_until": to_ms(row["throttled_until"])}]}, 0.1)

    cloudpickle.loads(dumps(Observer(restarted.watch.observe)))(batch)

    assert restarted.lines == []


def test_over_spark_connect_no_listener_is_added() -> None:
    session: Any = Mock(streams=Mock(spec_set=[]))
    type(session).__module__ = "pyspark.sql.connect.session"

    with reported(session, Watch(Mock(), Mock())) as ask:
        ask([])
