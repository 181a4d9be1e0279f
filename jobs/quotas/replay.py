"""Replays a topic's events through the stream into temporary tables."""

import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

from broker.errors import BrokerError
from broker.kafka.config import KafkaConfig
from jobs.output.progress import ProgressReport, progress_bar
from jobs.stream.command import stream
from jobs.stream.stream_progress import StreamProgress
from tables.query.sql_query import query
from tables.query.suggestions import RefusalCounts
from tables.quotas.quota_entry import QuotaEntry
from tables.quotas.quota_table import set_quotas
from tables.store.values import StreamSettings
from wire.topics import PRODUCE_EVENTS

_LOOK_EVERY_S = 1.0
_REFUSED = """
SELECT counts.principal, counts.refused_pids, coalesce(throttles.throttles, 0) AS throttles
FROM (
    SELECT principal, CAST(sum(refused_pids) AS BIGINT) AS refused_pids FROM principal_metrics GROUP BY principal
) AS counts
LEFT JOIN (
    SELECT principal, count(*) AS throttles FROM throttle_decisions WHERE action = 'THROTTLE' GROUP BY principal
) AS throttles ON throttles.principal = counts.principal
"""


def replay(
    quotas: Sequence[QuotaEntry],
    bootstrap_servers: str,
    kafka_config: Path | None,
    of_stream: StreamSettings,
) -> dict[str, RefusalCounts]:
    """Replay the topic of produce events under `quotas`, in a temporary folder. Return the refusals by principal."""
    with tempfile.TemporaryDirectory(prefix="pid-quota-replay-") as folder:
        tables = str(Path(folder, "tables"))
        set_quotas(tables, quotas)
        checkpoint = Path(folder, "checkpoint")
        settings = KafkaConfig.load(bootstrap_servers, kafka_config).client()
        with (
            progress_bar("replaying the topic's events") as report,
            reported(StreamProgress(checkpoint, settings, PRODUCE_EVENTS), report),
        ):
            stream(
                bootstrap_servers,
                tables,
                str(checkpoint),
                trigger="available-now",
                kafka_config=kafka_config,
                window_seconds=of_stream.window_seconds,
                burst_windows=of_stream.burst_windows,
            )
        rows = query(tables, _REFUSED, datetime.now(timezone.utc)).rows
    return {principal: RefusalCounts(refused_pids, throttles) for principal, refused_pids, throttles in rows}


@contextmanager
def reported(progress: StreamProgress, report: ProgressReport) -> Iterator[None]:
    """Report how many of a topic's records a stream has read, until the `with` block ends."""
    stop = threading.Event()
    watcher = threading.Thread(target=_report, args=(progress, report, stop), name="progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()


def _report(progress: StreamProgress, report: ProgressReport, stop: threading.Event) -> None:
    try:
        extents = progress.extents()
    except BrokerError:
        # The stream reports the error.
        return
    total = sum(end - begin for begin, end in extents.values())
    while not stop.wait(_LOOK_EVERY_S):
        committed = progress.committed() or {}
        report(sum(committed.get(number, begin) - begin for number, (begin, _) in extents.items()), total)
