"""One topic of events, streams over it that fail, and a comparison of their rows."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from confluent_kafka import Producer
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from broker.local.local_broker import LocalBroker
from quota.config import QuotaConfig
from streaming.checkpoint.commit_metadata import WRITE_ORDER
from streaming.checkpoint.data_loss import Extent, restart_after_losses
from streaming.checkpoint.identity import IDENTITY_FILE, StreamIdentity
from streaming.pipeline import StreamOptions, start
from streaming.triggers import AVAILABLE_NOW
from tables.schema.specs import TABLES, SinkName
from tables.store.path_tables import create_missing
from tests.kits.broker_kit import LIMIT_S, new_topic
from tests.kits.exploded_kit import event_value
from tests.kits.process_kit import in_group
from tests.kits.spark_kit import stored_ledgers

BATCH = 600
"""Records of a micro-batch, where a test does not say otherwise."""
SINK = cast("SinkName | None", os.environ.get("PID_QUOTA_TEST_SINK"))
CONFIG = QuotaConfig(metrics_interval_seconds=10)
HOUR_MS = 3_600_000
FIRST_MS = (round(time.time() * 1000) // HOUR_MS - 1) * HOUR_MS
OF_THE_BATCH = {"batch_id"}
BY_BATCH = {
    "throttle_decisions": OF_THE_BATCH | {"refused_pids", "sample_pids", "client_ids", "addresses"},
    "producer_id_metrics": OF_THE_BATCH | {"late_pids", "pid_uses", "pid_uses_one_in"},
    "quarantined_events": OF_THE_BATCH,
}
"""Columns that tell what a batch saw, not what the records say."""


def traffic(count: int, first: int = 0) -> list[tuple[str, bytes]]:
    """Key and value of some events: six floods, six steady principals, and bad records in between."""
    records = []
    for number in range(first, first + count):
        at_ms = FIRST_MS + number * 25
        who = f"User:p{number % 12}"
        if number % 97 == 0:
            records.append((who, b"not an event %d" % number))
        elif number % 2:
            records.append((who, event_value(number, who, at_ms, client_id=f"loop-{number % 3}")))
        else:
            records.append((who, event_value(10_000_000 + number % 24, who, at_ms)))
    return records


def topic_of(broker: LocalBroker, count: int) -> str:
    """Make a topic of two partitions with some events."""
    topic = new_topic(broker, "produce-events", 2)
    send(broker, topic, traffic(count))
    return topic


def send(broker: LocalBroker, topic: str, records: list[tuple[str, bytes]]) -> None:
    producer = Producer(broker.admin_config() | {"log_level": 0, "enable.idempotence": True})
    for key, value in records:
        producer.produce(topic, value, key)
        producer.poll(0)
    assert producer.flush(LIMIT_S) == 0


@dataclass(frozen=True)
class Stream:
    """A stream's folders, the topic that it reads, and what writes its tables."""

    root: Path
    servers: str
    topic: str
    batch: int = BATCH
    sink: SinkName | None = SINK

    @property
    def tables(self) -> str:
        return str(self.root / "tables")

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    def prepared(self) -> "Stream":
        """Make the tables with a default quota, and an identity like that of every other stream of these tests."""
        create_missing(self.tables)
        set_quota(self.tables, 20)
        identity = StreamIdentity(
            stream_id="fault",
            salt=7,
            learn_until_ms=0,
            learn_below=None,
            window_seconds=CONFIG.window_seconds,
            starting_offsets="earliest",
        )
        self.checkpoint.mkdir(parents=True, exist_ok=True)
        (self.checkpoint / IDENTITY_FILE).write_text(json.dumps(asdict(identity)))
        return self

    def options(self, **changes: Any) -> StreamOptions:
        options = StreamOptions(
            topic=self.topic,
            kafka_options={"kafka.bootstrap.servers": self.servers},
            tables=self.tables,
            checkpoint=str(self.checkpoint),
            trigger=AVAILABLE_NOW,
            max_offsets_per_trigger=self.batch,
            config=CONFIG,
            sink=self.sink,
        )
        return replace(options, **changes)

    def run(self, spark: SparkSession, extent: Callable[[], Extent] | None = None, **changes: Any) -> None:
        options = self.options(extent=extent, **changes)

        def read() -> None:
            start(spark, options).awaitTermination()

        restart_after_losses(str(self.checkpoint), read)

    def rows(self, table: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = DeltaTable(f"{self.tables}/{table}").to_pyarrow_table().to_pylist()
        return rows

    def everything(self) -> dict[str, list[str]]:
        """All rows of all event tables with all their columns, in an order of their own."""
        return {table: sorted(str(row) for row in self.rows(table)) for table in WRITE_ORDER}

    def meaning(self) -> dict[str, list[str]]:
        """The rows without what depends on how the records were cut into batches."""
        return {table: sorted(map(str, _final(table, self.rows(table)))) for table in WRITE_ORDER}

    def state(self, spark: SparkSession) -> dict[str, bytes]:
        return stored_ledgers(spark, self.checkpoint)

    def assert_equal(self, spark: SparkSession, other: "Stream") -> None:
        """Compare all rows and the state, of batches that were cut alike."""
        assert self.everything() == other.everything()
        assert self.state(spark) == other.state(spark)

    def assert_as_undisturbed(self, spark: SparkSession) -> None:
        """Compare with a stream that reads the topic now, in large batches and without any trouble."""
        undisturbed = replace(self, root=self.root.with_name("undisturbed"), batch=50_000, sink=SINK).prepared()
        undisturbed.run(spark)
        assert all(undisturbed.meaning().values())
        assert self.meaning() == undisturbed.meaning()
        assert self.state(spark) == undisturbed.state(spark)


def _final(table: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if table == "producer_id_metrics":
        final: dict[tuple[Any, ...], dict[str, Any]] = {}
        for row in sorted(rows, key=lambda row: (row["as_of"], row["batch_id"])):
            final[row["principal"], row["window_end"]] = row
        rows = list(final.values())
    return [{name: value for name, value in row.items() if name not in BY_BATCH[table]} for row in rows]


def set_quota(tables: str, rate: float, name: str | None = None) -> None:
    at = datetime(2026, 1, 1, tzinfo=timezone.utc)
    row = {"entity_type": "user", "entity_name": name, "producer_ids_rate": rate, "updated_at": at, "updated_by": "t"}
    rows = pa.Table.from_pylist([row], schema=TABLES["producer_id_quotas"].schema)
    write_deltalake(f"{tables}/producer_id_quotas", rows, mode="append")


# A driver of its own


@contextmanager
def running_driver(stream: Stream, log: Path, **more: object) -> Iterator[subprocess.Popen[bytes]]:
    """Run a driver process on a stream; it and its JVM are one process group."""
    asked = {"root": str(stream.root), "servers": stream.servers, "topic": stream.topic, "batch": stream.batch}
    asked |= {"sink": stream.sink, **more}
    with in_group([sys.executable, str(Path(__file__).with_name("driver_kit.py")), json.dumps(asked)], log) as process:
        yield process


def drive(stream: Stream, log: Path, **more: object) -> int:
    """Run a driver to its end, and return how it ended."""
    with running_driver(stream, log, **more) as process:
        return process.wait(LIMIT_S)


def bad_offsets(stream: Stream) -> list[tuple[int, int]]:
    """Partition and offset of all records that were no events, as the table has them."""
    bad = [row for row in stream.rows("quarantined_events") if not row["reason"].startswith("data loss")]
    return sorted((row["partition"], row["offset"]) for row in bad)


def said_losses(stream: Stream) -> list[tuple[int, int, str]]:
    """Partition, offset and words of the losses that were said."""
    rows = [row for row in stream.rows("quarantined_events") if row["reason"].startswith("data loss")]
    return sorted((row["partition"], row["offset"], row["reason"]) for row in rows)


def committed(stream: Stream) -> int:
    """Number of batches that are done. The checkpoint keeps the files of the last twenty only."""
    files = (stream.checkpoint / "commits").glob("*")
    return max((int(file.name) + 1 for file in files if file.name.isdecimal()), default=0)
