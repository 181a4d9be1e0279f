"""A running stream whose micro-batches the test defines: each file is one batch of Kafka records."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from quota.config import QuotaConfig
from state.events import Deployment
from streaming.commit.commit import Commit
from streaming.commit.sinks import BatchSummary
from streaming.pipeline import (
    StreamOptions,
    apply_rules,
    open_sink,
    pre_aggregate_records,
    write,
)
from tables.query.sql_query import query
from tables.quotas.quota_entry import QuotaEntry
from tables.quotas.quota_table import set_quota
from tables.store.path_tables import create_missing
from tests.kits.exploded_kit import block_of, event_value
from tests.kits.spark_kit import stored_ledgers

START_MS = 1_790_000_100_000
OF_BATCHES = {"batch_id", "state_bytes"}
QUOTAS_SET_AT = datetime(2026, 1, 1, tzinfo=timezone.utc)


def event(pid: int, principal: str = "User:mallory", at_ms: int = 0, **shared: object) -> bytes:
    """Return the value of a record of one event, `at_ms` after the start."""
    return event_value(pid, principal, START_MS + at_ms, **shared)


@dataclass
class Stream:
    """A stream over a folder of record files instead of a Kafka topic: all else is the job's own code."""

    spark: SparkSession
    root: Path
    deployment: Deployment = field(default_factory=lambda: Deployment(QuotaConfig(), salt=7))
    offset: int = 0
    max_principals: int = 50_000
    observer: Callable[[BatchSummary], None] | None = None

    @property
    def tables(self) -> str:
        return str(self.root / "tables")

    def quota(self, rate: float, name: str | None = None) -> None:
        set_quota(self.tables, QuotaEntry(name, rate, QUOTAS_SET_AT, "test"))

    def batch(self, *values: bytes | None) -> None:
        self.batch_at(START_MS, *values)

    def batch_at(self, record_ms: int, *values: bytes | None, partition: int = 0) -> None:
        """Add a micro-batch whose records Kafka took at some time, on some partition."""
        records = block_of(values, record_ms, partition, self.offset)
        folder = self.root / "records"
        folder.mkdir(parents=True, exist_ok=True)
        # Spark passes over names that begin with a dot: a running stream never sees half a file.
        pq.write_table(records, folder / ".being-written")
        # It takes files by their age, and two may be of the same moment.
        written_at = START_MS // 1000 + len(list(folder.glob("*.parquet")))
        os.utime(folder / ".being-written", (written_at, written_at))
        (folder / ".being-written").rename(folder / f"{self.offset:012d}.parquet")
        self.offset += len(values)

    def run(self) -> StreamingQuery:
        """Process all batches added so far, one file at a time, then stop; returns what Spark says of them."""
        query = self._start("available-now")
        query.awaitTermination()
        return query

    @contextmanager
    def running(self) -> Iterator[StreamingQuery]:
        """Process batches as they are added, until the block ends."""
        query = self._start("500 milliseconds")
        try:
            yield query
        finally:
            query.stop()

    def wait_for(self, condition: Callable[[], bool], query: StreamingQuery) -> None:
        give_up_at = time.monotonic() + 120
        while not condition():
            assert query.isActive, query.exception()
            assert time.monotonic() < give_up_at, "the condition did not come true in two minutes"
            time.sleep(0.2)

    def _start(self, trigger: str) -> StreamingQuery:
        create_missing(self.tables)
        (self.root / "records").mkdir(parents=True, exist_ok=True)
        options = StreamOptions(
            topic="produce-events",
            kafka_options={},
            tables=self.tables,
            checkpoint=str(self.root / "checkpoint"),
            trigger=trigger,
            config=self.deployment.config,
            max_principals=self.max_principals,
        )
        schema = "value BINARY, topic STRING, partition INT, offset BIGINT, record_ms BIGINT"
        reader = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        pre_aggregates = pre_aggregate_records(reader.parquet(str(self.root / "records")), options)
        output = apply_rules(pre_aggregates, self.deployment, options)
        commit = Commit(open_sink(self.tables, "test"), "test", options.checkpoint, self.tables, observer=self.observer)
        return write(output, options, commit)

    def rows(self, table: str) -> list[dict[str, Any]]:
        content = DeltaTable(f"{self.tables}/{table}").to_pyarrow_table().to_pylist()
        return sorted(content, key=lambda row: row["batch_id"])

    def said_of(self, *principals: str) -> list[dict[str, object]]:
        """All decisions and metrics of some principals, but for what depends on batches."""
        rows = [row for table in ("throttle_decisions", "producer_id_metrics") for row in self.rows(table)]
        found = [row for row in rows if row["principal"] in principals]
        plain = [{name: value for name, value in row.items() if name not in OF_BATCHES} for row in found]
        return sorted(plain, key=lambda row: (str(row["principal"]), "action" not in row, str(row)))

    def state_rows(self) -> list[str]:
        """The principals of all ledgers."""
        return sorted(stored_ledgers(self.spark, self.root / "checkpoint"))


OTHERS = ("User:alice", "User:bob", "User:carol")


def others(batch: int) -> list[bytes]:
    """A batch of three principals: one steady, one growing slowly, one beyond its quota of 10."""
    at_ms = batch * 20_000
    steady = [event(pid, "User:alice", at_ms + pid) for pid in range(5)]
    growing = [event(1000 + batch, "User:bob", at_ms)]
    flooding = [event(2000 + 8 * batch + number, "User:carol", at_ms + number) for number in range(8)]
    return steady + growing + flooding


def admitted_by_principal(tables: str) -> dict[str, int]:
    """Return the admitted PIDs of each principal, over all metrics intervals."""
    select = "SELECT principal, CAST(sum(admitted_pids) AS BIGINT) AS pids FROM principal_metrics GROUP BY principal"
    return {row["principal"]: row["pids"] for row in query(tables, select, datetime.now(timezone.utc)).records()}
