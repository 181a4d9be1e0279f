"""A driver process for the fault tests: the job's own pipeline, with a hook that kills it at a chosen step.

Started as a program with one argument, JSON: `root`, `servers`, `topic`, `batch` and, if it is to die, `die`: a table
before whose append, or `end` after all of them, in batch `die_in`; `sink` names what writes the tables.
"""

import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from jvm.jar_sets import jars_folder, spark_jars
from jvm.java import quick_options
from streaming import pipeline
from streaming.checkpoint.commit_metadata import CommitMetadata
from streaming.commit.commit import Commit
from streaming.commit.sinks import TableSink
from streaming.session import stream_session
from streaming.triggers import AVAILABLE_NOW
from tests.kits.fault_kit import Stream


def die() -> None:
    """End this process and its JVM at once, as the kernel's OOM killer or a power cut would."""
    os.killpg(os.getpgid(0), signal.SIGKILL)


@dataclass(frozen=True)
class KillingSink:
    """Dies before the append to a table."""

    inner: TableSink
    table: str
    batch_id: int

    def append(
        self, spark: SparkSession, rows: pa.Table, table: str, batch_id: int, mark: CommitMetadata | None = None
    ) -> None:
        if (table, batch_id) == (self.table, self.batch_id):
            die()
        self.inner.append(spark, rows, table, batch_id, mark)


@dataclass(frozen=True)
class KillingCommit(Commit):
    """Dies when all tables have the batch, and Spark does not know it yet."""

    def __call__(self, output: DataFrame, batch_id: int) -> None:
        super().__call__(output, batch_id)
        if isinstance(self.sink, KillingSink) and (self.sink.table, self.sink.batch_id) == ("end", batch_id):
            die()


def main(asked: dict[str, object]) -> None:
    stream = Stream(Path(str(asked["root"])), str(asked["servers"]), str(asked["topic"]), int(str(asked["batch"])))
    where, batch_id = str(asked.get("die", "")), int(str(asked.get("die_in", -1)))
    opened = pipeline.open_sink
    given = vars(pipeline)
    given["open_sink"] = lambda *asked: KillingSink(opened(*asked), where, batch_id)
    given["Commit"] = KillingCommit
    master = str(asked.get("master", "local[2]"))
    spark = stream_session(spark_jars(jars_folder()), master, java_options=quick_options())
    changes = {"sink": asked["sink"]} if "sink" in asked else {}
    options = stream.options(trigger=asked.get("trigger", AVAILABLE_NOW), **changes)
    pipeline.start(spark, options).awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
