"""What Spark's Python workers do between two tasks, which nobody sees but everybody waits for."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from streaming.batch.tasks import freeze_gc


def test_a_worker_s_modules_are_kept_from_the_collector_and_what_comes_later_is_not(spark: SparkSession) -> None:
    # Inside, since the workers do not know this module.
    def kept(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        list(batches)
        freeze_gc()
        first = gc.get_freeze_count()
        _later: list[list[int]] = [[] for _ in range(1000)]
        freeze_gc()
        yield pa.record_batch([pa.array([first]), pa.array([gc.get_freeze_count()])], ["first", "again"])

    (row,) = spark.range(1).coalesce(1).mapInArrow(kept, "first LONG, again LONG").collect()

    # pyarrow alone is more.
    assert row["first"] > 20_000
    assert row["again"] <= row["first"]


def test_workers_are_forked_from_a_process_that_has_loaded_their_modules(spark: SparkSession) -> None:
    def parent(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        list(batches)
        command = Path(f"/proc/{os.getppid()}/cmdline").read_text(encoding="ascii").replace("\0", " ")
        yield pa.record_batch([pa.array([command]), pa.array([gc.get_freeze_count()])], ["command", "kept"])

    (row,) = spark.range(1).coalesce(1).mapInArrow(parent, "command STRING, kept LONG").collect()

    assert "streaming.worker_daemon" in row["command"]
    assert row["kept"] > 20_000


def test_nothing_is_kept_outside_of_a_task() -> None:
    before = gc.get_freeze_count()
    freeze_gc()
    assert gc.get_freeze_count() == before
