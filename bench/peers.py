"""Compares the CPU time of the stream with that of what Spark offers, on the records of the big cluster.

The batches follow each other at once. After the first ones, all but a few PIDs are known.
`dedup` is `dropDuplicatesWithinWatermark`, and `set` an exact set per principal in `applyInPandasWithState`. They count
a principal's new PIDs, and have no tokens, refusals or releases. This module is also the program of a peer.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pandas as pd
from deltalake import write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from bench.big_cluster import CLUSTER, QUOTA
from bench.kit import Found, figure, metered, running, running_broker, stream_command
from bench.loads import Cluster, fill
from broker.local.local_broker import LocalBroker
from jvm.jar_sets import jars_folder, spark_jars
from streaming.session import stream_session
from wire.topics import PRODUCE_EVENTS

PEERS = ("dedup", "set")
BATCH_S, LIMIT_S = 5, 400.0
"""Seconds of records in a batch, and the time limit of all batches."""
WARM_UP, BATCHES = 6, 4
"""Batches of the first interval, in which all PIDs are new, and batches that count."""
_WINDOW = "3600 seconds"
_RECORD = "timestamp_ms BIGINT, principal STRING, after_ms ARRAY<BIGINT>, producer_ids ARRAY<BIGINT>"


@contextmanager
def filled(cluster: Cluster) -> Iterator[tuple[LocalBroker, Path]]:
    """Run a broker that has a cluster's records. Yield it and a folder."""
    with running_broker() as (broker, folder):
        fill(broker, cluster, BATCH_S * (WARM_UP + BATCHES + 2))
        yield broker, folder


def batch_cost(command: Sequence[str], folder: Path) -> dict[str, float]:
    """Run a stream, and return the mean CPU time and length of its batches after the warm-up."""
    with running(command, folder) as child:
        child.await_batch(WARM_UP - 1, LIMIT_S)
        first = max(child.batches())
        with metered(child) as cost:
            child.await_batch(first + BATCHES, LIMIT_S)
            done = max(child.batches()) - first
    return {name: value / done for name, value in cost.items()}


def measure(share: float) -> Found:
    cluster = Cluster(max(200, round(share * CLUSTER.principals)), CLUSTER.pids_each)
    records = cluster.records_in(BATCH_S)
    with filled(cluster) as (broker, folder):
        stream = stream_command(broker, folder / "stream", QUOTA, records)
        costs = {"stream": batch_cost(stream, folder / "stream")}
        for name in PEERS:
            arguments = (name, broker.admin_servers, str(folder / name), str(records))
            costs[name] = batch_cost((sys.executable, "-m", "bench.peers", *arguments), folder / name)
    figures = {f"big_cluster_vs_{name}": figure([costs[name]["cpu_s"] / costs["stream"]["cpu_s"]]) for name in PEERS}
    return {"figures": figures, "details": {"peers": costs}}


def dedup(events: DataFrame) -> DataFrame:
    return events.withWatermark("at", _WINDOW).dropDuplicatesWithinWatermark(["principal", "producer_id"])


def exact_set(events: DataFrame) -> DataFrame:
    groups = events.selectExpr("principal", "producer_id", "unix_millis(at) AS at_ms").groupBy("principal")
    never = GroupStateTimeout.NoTimeout
    return groups.applyInPandasWithState(remember, "principal STRING", "pids BINARY", "append", never)


def remember(key: tuple[str], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Yield a row for each PID that is new to a principal's set. `applyInPandasWithState` calls this."""
    seen: dict[int, int] = msgspec.msgpack.decode(state.get[0], type=dict[int, int]) if state.exists else {}
    before = len(seen)
    for frame in frames:
        seen |= dict(zip(frame["producer_id"].tolist(), frame["at_ms"].tolist(), strict=True))
    state.update((msgspec.msgpack.encode(seen),))
    yield pd.DataFrame({"principal": [key[0]] * (len(seen) - before)})


def start(name: str, servers: str, folder: Path, records: int) -> None:
    """Run a peer until it is killed."""

    def commit(batch: DataFrame, _number: int) -> None:
        rows = batch.groupBy("principal").agg(fn.count("*").alias("new_pids")).toArrow()
        if rows.num_rows:
            write_deltalake(folder / "tables", rows, mode="append")

    events = decoded(stream_session(spark_jars(jars_folder())), servers, records)
    found = dedup(events) if name == "dedup" else exact_set(events)
    writer = found.writeStream.foreachBatch(commit).option("checkpointLocation", str(folder / "checkpoint"))
    writer.start().awaitTermination()


def decoded(spark: SparkSession, servers: str, records: int) -> DataFrame:
    """Return the events of the topic: principal, producer id, and time."""
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    source = source.option("subscribe", PRODUCE_EVENTS).option("startingOffsets", "earliest")
    values = source.option("maxOffsetsPerTrigger", records).load()
    found = values.select(fn.from_json(fn.col("value").cast("STRING"), _RECORD).alias("event")).select("event.*")
    each = found.selectExpr("principal", "timestamp_ms", "inline(arrays_zip(after_ms, producer_ids))")
    at = "timestamp_millis(timestamp_ms + after_ms) AS at"
    return each.selectExpr("principal", "producer_ids AS producer_id", at)


if __name__ == "__main__":
    start(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
