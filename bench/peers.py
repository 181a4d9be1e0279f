"""Other ways to find who makes too many producer ids, on the same events and into the same two tables.

All but `tws` decide less than KIP-936 asks for: they count new PIDs per batch and window, and know no tokens, no
refusals and no releases. Where they leave out work, it is to their favour.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
from bench_kit import QUOTA
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from typing_extensions import override

from state.events import Deployment
from streaming.operator import OUTPUT_SCHEMA, STATE_SCHEMA, apply, as_frame, limit_of, unpack
from streaming.pipeline import (
    AVAILABLE_NOW,
    StreamOptions,
    join_quotas,
    latest_quotas,
    open_sink,
    read_records,
    tally_records,
)
from streaming.sinks import WRITE_ORDER, Commit, TableSink
from streaming.tables import TABLES, spark_ddl

EVENT = "timestamp_ms BIGINT, principal STRING, producer_id BIGINT, client_id STRING"
_METRICS = {"window_end": "at", "as_of": "at", "new_pids_window": "new_pids"}
_DECISIONS = {"decided_at": "at", "throttled_until": "at", "refused_pids": "new_pids"}
_decoder = msgspec.msgpack.Decoder(dict[int, int])
_COUNTED = "principal STRING, new_pids BIGINT, newest_ms BIGINT"


def source_only(spark: SparkSession, options: StreamOptions) -> StreamingQuery:
    """The roofline: Kafka's records to nowhere."""
    records = read_records(spark, options)
    writer = records.writeStream.format("noop").option("checkpointLocation", options.checkpoint)
    return writer.trigger(availableNow=True).start()


def dedup(spark: SparkSession, options: StreamOptions) -> StreamingQuery:
    """Exact, in the JVM: Spark's own deduplication of (principal, PID) within the window, then a count per window."""
    window = f"{options.config.window_seconds} seconds"
    unseen = (
        _decoded(spark, options).withWatermark("at", window).dropDuplicatesWithinWatermark(["principal", "producer_id"])
    )

    def commit(batch: DataFrame, batch_id: int) -> None:
        # A second stateful operator would say a window's count an hour late: what a batch adds to it is said at once.
        counted = batch.groupBy("principal", fn.window("at", window)).agg(
            fn.count("*").alias("new_pids"), fn.unix_millis(fn.max("at")).alias("newest_ms")
        )
        _write(counted, batch_id, sink)

    sink = open_sink(options.tables, "dedup", options.sink)
    return _started(unseen, options, commit)


def approximate(spark: SparkSession, options: StreamOptions) -> StreamingQuery:
    """HyperLogLog in the JVM: distinct PIDs per principal and window; knows no PID, so it can admit none."""
    window = f"{options.config.window_seconds} seconds"
    counted = (
        _decoded(spark, options)
        .withWatermark("at", window)
        .groupBy("principal", fn.window("at", window))
        .agg(fn.approx_count_distinct("producer_id").alias("new_pids"), fn.max("at").alias("newest"))
        .selectExpr("principal", "new_pids", "unix_millis(newest) AS newest_ms")
    )
    sink = open_sink(options.tables, "hll", options.sink)
    return _started(counted, options, lambda batch, batch_id: _write(batch, batch_id, sink), "update")


def with_state(spark: SparkSession, options: StreamOptions) -> StreamingQuery:
    """Our own ledgers in `transformWithStateInPandas`: all but the operator is the job's."""
    tallies = tally_records(read_records(spark, options), options)
    limited = join_quotas(tallies, latest_quotas(spark, options.tables))
    output = limited.groupBy("principal").transformWithStateInPandas(
        LedgerProcessor(Deployment(options.config, salt=7), options.never_enforced), OUTPUT_SCHEMA, "append", "none"
    )
    return _started(output, options, Commit(open_sink(options.tables, "tws", options.sink)))


class LedgerProcessor(StatefulProcessor):
    """Gives the events of a principal to its ledger, as `streaming.operator.operate` does; it never forgets one."""

    def __init__(self, deployment: Deployment, never_enforced: frozenset[str]) -> None:
        self.deployment, self.never_enforced = deployment, never_enforced

    @override
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.ledger = handle.getValueState("ledger", STATE_SCHEMA)

    @override
    def handleInputRows(
        self, key: tuple[str], rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        frames = list(rows)
        packed = [each for frame in frames for each in frame["packed"].tolist()]
        first = frames[0]
        limit = limit_of(*(first[name].iat[0] for name in ("quota", "quota_source", "quota_updated_ms")))
        output = apply(self.deployment, self.never_enforced, key[0], packed, limit, ValueSlot(self.ledger))
        kept = [row for row in output if row[0] in WRITE_ORDER]
        if kept:
            yield as_frame(kept)


class ValueSlot:
    """A `ValueState` as a `streaming.slots.Slot`; no timer is set, which saves it a call."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def get(self) -> bytes | None:
        found = self._state.get()
        return None if found is None else bytes(found[0])

    def put(self, content: bytes, look_again_ms: int) -> None:
        self._state.update((content,))

    def remove(self) -> None:
        self._state.clear()


def exact_set(spark: SparkSession, options: StreamOptions) -> StreamingQuery:
    """An exact Python set per principal behind the same tally."""
    counted = (
        tally_records(read_records(spark, options), options)
        .groupBy("principal")
        .applyInPandasWithState(_remember, _COUNTED, "pids BINARY", "update", GroupStateTimeout.NoTimeout)
    )
    sink = open_sink(options.tables, "set", options.sink)
    return _started(counted, options, lambda batch, batch_id: _write(batch, batch_id, sink), "update")


def _remember(key: tuple[str], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    seen: dict[int, int] = _decoder.decode(state.get[0]) if state.exists else {}
    before, newest = len(seen), 0
    for frame in frames:
        events = unpack(frame["packed"])
        for pid, at_ms in zip(events.pids, events.timestamps_ms, strict=True):
            seen[pid] = newest = max(at_ms, newest)
    state.update((msgspec.msgpack.encode(seen),))
    yield pd.DataFrame({"principal": [key[0]], "new_pids": [len(seen) - before], "newest_ms": [newest]})


def _decoded(spark: SparkSession, options: StreamOptions) -> DataFrame:
    records = read_records(spark, options)
    events = records.select(fn.from_json(fn.col("value").cast("STRING"), EVENT).alias("event")).select("event.*")
    return events.withColumn("at", fn.timestamp_millis("timestamp_ms"))


def _started(frame: DataFrame, options: StreamOptions, commit: Any, mode: str = "append") -> StreamingQuery:
    Path(options.checkpoint).mkdir(parents=True, exist_ok=True)
    writer = frame.writeStream.outputMode(mode).foreachBatch(commit).option("checkpointLocation", options.checkpoint)
    if options.trigger == AVAILABLE_NOW:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=options.trigger).start()


def _write(counted: DataFrame, batch_id: int, sink: TableSink) -> None:
    """Write a row per principal, and a decision for each above its quota."""
    counted = counted.persist()
    try:
        rows = _as_rows(counted, "producer_id_metrics", batch_id, _METRICS)
        over = counted.where(fn.col("new_pids") > QUOTA)
        decisions = _as_rows(over, "throttle_decisions", batch_id, _DECISIONS)
        if not over.isEmpty():
            sink.append(decisions, "throttle_decisions", batch_id)
        sink.append(rows, "producer_id_metrics", batch_id)
    finally:
        counted.unpersist()


def _as_rows(counted: DataFrame, table: str, batch_id: int, sources: dict[str, str]) -> DataFrame:
    timed = counted.withColumn("at", fn.timestamp_millis("newest_ms"))
    types = dict(part.split(" ", 1) for part in _split(spark_ddl(table)))
    known = sources | {"principal": "principal"}
    columns = []
    for name in TABLES[table].schema.names:
        value = fn.lit(batch_id) if name == "batch_id" else fn.col(known[name]) if name in known else fn.lit(None)
        columns.append(value.cast(types[name]).alias(name))
    return timed.select(columns)


def _split(ddl: str) -> list[str]:
    # MAP<STRING, BIGINT> holds the separator, too.
    return ddl.replace("MAP<STRING, BIGINT>", "MAP<STRING,BIGINT>").split(", ")


PEERS = {"source": source_only, "dedup": dedup, "approximate": approximate, "set": exact_set, "tws": with_state}
"""By the names that `bench/throughput.py` and `bench/peer_stream.py` know them by."""
