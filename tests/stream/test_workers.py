"""What nobody sees but everybody waits for: Spark's Python workers between two tasks, and processes for files."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from broker.local.local_broker import LocalBroker
from streaming.batch.tasks import freeze_gc
from tests.kits.fault_kit import topic_of
from tests.kits.stream_command_kit import StreamCommand


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


def test_a_stream_starts_no_process_for_the_rights_of_a_file(
    broker: LocalBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, chmod = tmp_path / "calls", tmp_path / "tools" / "chmod"
    chmod.parent.mkdir()
    chmod.write_text(f'#!/bin/sh\necho "$@" >> {calls}\nexec /bin/chmod "$@"\n', encoding="ascii")
    chmod.chmod(0o755)
    monkeypatch.setenv("PATH", f"{chmod.parent}:{os.environ['PATH']}")
    stream = StreamCommand.on(broker, topic_of(broker, 100), tmp_path)

    before = os.umask(0o027)
    try:
        assert stream.run()[0] == 0
    finally:
        os.umask(before)

    assert not calls.exists()
    # Hadoop sets its own rights, whatever the process's umask.
    assert (stream.checkpoint / "offsets" / "0").stat().st_mode & 0o777 == 0o644


def test_nothing_is_kept_outside_of_a_task() -> None:
    before = gc.get_freeze_count()
    freeze_gc()
    assert gc.get_freeze_count() == before
