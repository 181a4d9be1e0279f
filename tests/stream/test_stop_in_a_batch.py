"""A query that is stopped while a batch runs: its JVM says nothing of it."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys, threading, time
from collections.abc import Iterator
import pyarrow as pa
from pyspark.sql import DataFrame
from jvm.jar_sets import spark_jars
from streaming.failures import with_short_errors
from streaming.session import stream_session

checkpoint = sys.argv[1]
begun = threading.Event()

def sleep(frames: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for frame in frames:
        time.sleep(600)
        yield frame

def commit(batch: DataFrame, batch_id: int) -> None:
    begun.set()
    batch.mapInArrow(sleep, batch.schema).toArrow()

spark = stream_session(spark_jars(), "local[2]")
records = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
query = records.writeStream.option("checkpointLocation", checkpoint).foreachBatch(with_short_errors(commit)).start()
assert begun.wait(120)
while not spark.sparkContext.statusTracker().getActiveStageIds():
    time.sleep(0.1)
query.stop()
print("exception:", query.exception())
spark.stop()
"""


@pytest.mark.usefixtures("jars")
def test_it_ends_without_an_error_and_without_a_trace(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "checkpoint")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert (ended.returncode, ended.stdout) == (0, "exception: None\n"), ended.stderr[-3000:]
    assert "terminated with error" not in ended.stderr
    assert "StackOverflowError" not in ended.stderr
    assert "\tat " not in ended.stderr
