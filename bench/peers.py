"""Peers of the job. They find principals with too many producer ids in the same events, and write the same two tables.

All peers but `tws` decide less than KIP-936 asks for: they count new PIDs per batch and window, without tokens,
refusals or releases. This makes them faster.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from typing_extensions import override

from bench.kit import QUOTA
from quota.limits import UNLIMITED
from quota.principals import NEVER_ENFORCED
from state.events import Deployment
from state.ledger import Ledger
from streaming.batch.batch_ends import write_end
from streaming.batch.batch_quotas import BatchQuotas
from streaming.batch.tasks import TaskBatch
from streaming.commit.sinks import Commit, TableSink
from streaming.operator.group_events import arrived
from streaming.operator.ledger_operator import STATE_SCHEMA, table_bodies
from streaming.operator.rows import OUTPUT_SCHEMA, pack, table_rows
from streaming.pipeline import (
    StreamOptions,
    open_sink,
    pre_aggregate_records,
    quotas_of,
    read_records,
)
from streaming.triggers import AVAILABLE_NOW
from wire.packed_events import PackedEvents, unpack

RECORD = "timestamp_ms BIGINT, principal STRING, after_ms ARRAY<BIGINT>, producer_ids ARRAY<BIGINT>"
"""Fields that peers read from a record."""
_decoder = msgspec.msgpack.Decoder(dict[int, int])
_COUNTED = "principal STRING, new_pids BIGINT, newest_ms BIGINT"


def dedup(spark: SparkSession, options: StreamOptions) -> StreamingQuery:
    """Start Spark's own exact deduplication of (principal, PID) within the window. It counts PIDs per window."""
    window = f"{options.config.window_seconds} seconds"
    unseen = (
        decoded(spark, options).withWatermark("at", window).dropDuplicatesWithinWatermark(["principal", "producer_id"])
    )

    def commit(batch: DataFrame, batch_id: int) -> None:
        # A second stateful operator would report a window's count an hour late, so count what each batch adds.
        counted = batch.groupBy("principal", fn.window("at", window)).agg(
            fn.count("*").alias("new_pids"), fn.unix_millis(fn.max("at")).alias("newest_ms")
        )
        write(counted, batch_id)

    write = _writer(options, "dedup")
    return _started(unseen, options, commit)


def with_state(spark: SparkSession, options: StreamOptions) -> StreamingQuery:
    """Start the job with `transformWithStateInPandas` as its operator."""
    pre_aggregates = pre_aggregate_records(read_records(spark, options), options)
    processor = LedgerProcessor(Deployment(options.config, salt=7), TaskBatch(options.checkpoint))
    output = pre_aggregates.groupBy("principal").transformWithStateInPandas(processor, OUTPUT_SCHEMA, "append", "none")
    sink = open_sink(options.tables, "tws", options.sink)
    return _started(output, options, Commit(sink, checkpoint=options.checkpoint, quotas=quotas_of(options)))


class LedgerProcessor(StatefulProcessor):
    """Passes the events of a principal to its ledger, as the job's operator does. It never evicts a ledger."""

    def __init__(self, deployment: Deployment, batch: TaskBatch) -> None:
        self.deployment, self.batch = deployment, batch

    @override
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.ledger = handle.getValueState("ledger", STATE_SCHEMA)

    @override
    def handleInputRows(
        self, key: tuple[str], rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        parts = [(key[0], each) for frame in rows for each in pre_aggregates_of(frame)]
        limit = UNLIMITED if key[0] in NEVER_ENFORCED else self.batch.quotas().find(key[0])
        events = arrived(parts, self.deployment.salt)[key[0]].events
        found = self.ledger.get()
        stored = None if found is None else bytes(found[0])
        outcome = Ledger(key[0], self.deployment, stored).process(events, limit)
        if outcome.content != stored:
            self.ledger.update((outcome.content,))
        output = table_bodies(outcome)
        if output:
            yield pack(output)


def exact_set(spark: SparkSession, options: StreamOptions) -> StreamingQuery:
    """Start a query with an exact Python set per principal after the job's pre-aggregation."""
    counted = (
        pre_aggregate_records(read_records(spark, options), options)
        .groupBy("principal")
        .applyInPandasWithState(remember, _COUNTED, "pids BINARY", "update", GroupStateTimeout.NoTimeout)
    )
    return _started(counted, options, _writer(options, "set"), "update")


def remember(key: tuple[str], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Count the producer ids that are new to a principal's set. `applyInPandasWithState` calls this."""
    seen: dict[int, int] = _decoder.decode(state.get[0]) if state.exists else {}
    before, newest = len(seen), 0
    for frame in frames:
        for events in pre_aggregates_of(frame):
            columns = (np.frombuffer(each, np.int64).tolist() for each in (events.pids, events.timestamps_ms))
            for pid, at_ms in zip(*columns, strict=True):
                seen[pid] = newest = max(at_ms, newest)
    state.update((msgspec.msgpack.encode(seen),))
    yield pd.DataFrame({"principal": [key[0]], "new_pids": [len(seen) - before], "newest_ms": [newest]})


def pre_aggregates_of(frame: pd.DataFrame) -> list[PackedEvents]:
    """Return the pre-aggregates in the input of an operator. A load has no bad records."""
    return [each for each in map(unpack, frame["packed"].tolist()) if isinstance(each, PackedEvents)]


def decoded(spark: SparkSession, options: StreamOptions) -> DataFrame:
    """Return the events of a topic: principal, producer id, and time."""
    value = fn.col("value").cast("STRING")
    records = read_records(spark, options).select(fn.from_json(value, RECORD).alias("event"))
    events = records.select("event.*")
    each = events.selectExpr("principal", "timestamp_ms", "inline(arrays_zip(after_ms, producer_ids))")
    return each.selectExpr(
        "principal", "producer_ids AS producer_id", "timestamp_millis(timestamp_ms + after_ms) AS at"
    )


def _writer(options: StreamOptions, name: str) -> "WriteCounts":
    return WriteCounts(open_sink(options.tables, name, options.sink), quotas_of(options))


def _started(frame: DataFrame, options: StreamOptions, commit: Any, mode: str = "append") -> StreamingQuery:
    Path(options.checkpoint).mkdir(parents=True, exist_ok=True)
    writer = frame.writeStream.outputMode(mode).foreachBatch(commit).option("checkpointLocation", options.checkpoint)
    if options.trigger == AVAILABLE_NOW:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=options.trigger).start()


@dataclass(frozen=True)
class WriteCounts:
    """Writes a metrics row for each count, and a decision for each count above the quota, in `foreachBatch`."""

    sink: TableSink
    quotas: BatchQuotas

    def __call__(self, counted: DataFrame, batch_id: int) -> None:
        """Write a batch of rows with `principal`, `new_pids` and `newest_ms`."""
        spark = counted.sparkSession
        # The pre-aggregation reads the quotas, and what the previous batch wrote at its end.
        self.quotas.publish(spark, batch_id)
        rows = counted.toArrow().to_pylist()
        decisions = [_decision(row) for row in rows if row["new_pids"] > QUOTA]
        for table, bodies in (("throttle_decisions", decisions), ("producer_id_metrics", list(map(_metrics, rows)))):
            if bodies:
                self.sink.append(spark, table_rows(bodies, table, batch_id), table, batch_id)
        write_end(self.quotas.checkpoint, batch_id, {})


def _metrics(row: dict[str, Any]) -> dict[str, Any]:
    at_ms = row["newest_ms"]
    return {"principal": row["principal"], "window_end": at_ms, "as_of": at_ms, "new_pids_window": row["new_pids"]}


def _decision(row: dict[str, Any]) -> dict[str, Any]:
    at_ms = row["newest_ms"]
    times = {"decided_at": at_ms, "throttled_until": at_ms}
    return {"principal": row["principal"], "refused_pids": row["new_pids"], **times}


PEERS = ("dedup", "set", "tws")


def start(name: str, spark: SparkSession, options: StreamOptions) -> StreamingQuery:
    """Start a peer."""
    return {"dedup": dedup, "set": exact_set, "tws": with_state}[name](spark, options)
