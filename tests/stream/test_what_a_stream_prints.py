"""The lines of `pid-quota stream` on standard error, with a real broker, tables and Spark."""

import re
from datetime import datetime, timedelta
from pathlib import Path

from broker.local.local_broker import LocalBroker
from jobs.stream.narration import Narrator
from jobs.stream.stream_metrics import StreamMetrics, Totals
from jobs.stream.stream_watch import Watch
from quota.config import QuotaConfig
from tables.store.base import TableStore
from tables.store.open import open_store
from tables.store.path_tables import create_missing
from tests.kits.fault_kit import set_quota, topic_of
from tests.kits.stream_command_kit import StreamCommand

TIMED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ (.*)")


def restored(store: TableStore, now: datetime) -> Totals:
    metrics = StreamMetrics(QuotaConfig(), clock_ms=lambda: round(now.timestamp() * 1000))
    Watch(metrics, Narrator(metrics.totals, window_seconds=3600)).restore(store, now)
    return metrics.totals()


def test_a_stream_prints_where_it_reads_what_holds_and_its_first_decision(broker: LocalBroker, tmp_path: Path) -> None:
    stream = StreamCommand.on(broker, topic_of(broker, 1000), tmp_path)
    create_missing(str(stream.tables))
    set_quota(str(stream.tables), 20)

    code, said = stream.run()

    assert code == 0, said
    # The broker that these tests share may have a plugin, which may have stopped.
    lines = [found[1] for line in said if (found := TIMED.fullmatch(line)) and "plugin" not in line]
    assert lines[0] == f"reads topic {stream.topic}, writes tables in {stream.tables}, to its present end"
    assert lines[1] == "quotas in force: 20 new PIDs per 3,600 s by default"
    assert re.match(r"first decision: User:p\d+ is over its quota of 20, throttled until ", lines[2])
    # All the rest is one line of Java itself: nothing of Spark that nobody can act on.
    rest = [line for line in said if not TIMED.fullmatch(line)]
    assert [line for line in rest if "jdk.incubator.vector" not in line] == []

    # Given a stream that starts again: what it decided before holds.
    with open_store(str(stream.tables)) as store:
        last = max(row["throttled_until"] for row in store.read("throttle_decisions"))
        second = timedelta(seconds=1)
        before, after = (restored(store, last + offset) for offset in (-second, second))
    assert before.throttled >= 1
    assert after == Totals(0, 0)
