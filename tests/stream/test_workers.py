"""What Spark's Python workers do between two tasks, which nobody sees but everybody waits for."""

import gc
from collections.abc import Iterator

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


def test_nothing_is_kept_outside_of_a_task() -> None:
    before = gc.get_freeze_count()
    freeze_gc()
    assert gc.get_freeze_count() == before
