"""Tables that can't be written for a while: the stream ends, and a new start goes on as if nothing had been."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import Mock

import pandas as pd
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

from streaming import pipeline
from streaming.checkpoint.commit_metadata import CommitMetadata
from streaming.commit import deltalake_sink
from streaming.commit.sinks import TableSink
from streaming.errors import StreamFailedError, StreamIdTakenError
from streaming.failures import as_stream_error, is_of_spark
from streaming.pipeline import open_sink
from tables.errors import TableError
from tables.schema.ddl import row_schema, spark_ddl
from tables.schema.specs import SinkName
from tables.store.path_tables import create_missing, open_table
from tests.kits.fault_kit import Stream, set_quota
from tests.kits.process_kit import repeating

METRICS = "producer_id_metrics"


@dataclass(frozen=True)
class FailingSink:
    """Raises before the append to a table, in one batch."""

    inner: TableSink

    def append(
        self, spark: SparkSession, rows: pa.Table, table: str, batch_id: int, mark: CommitMetadata | None = None
    ) -> None:
        if (table, batch_id) == ("quarantined_events", 1):
            msg = "a sink that fails"
            raise RuntimeError(msg)
        self.inner.append(spark, rows, table, batch_id, mark)


def ends(spark: SparkSession, stream: Stream) -> StreamFailedError:
    """Run a stream that fails, and return how the job says it."""
    with pytest.raises(Exception, match=r".") as raised:
        stream.run(spark)
    assert is_of_spark(raised.value)
    error = as_stream_error(raised.value, str(stream.checkpoint))
    assert isinstance(error, StreamFailedError)
    return error


def ends_by_its_sink(spark: SparkSession, stream: Stream) -> StreamFailedError:
    with pytest.MonkeyPatch.context() as broken:
        opened = pipeline.open_sink
        broken.setattr(pipeline, "open_sink", lambda *asked: FailingSink(opened(*asked)))
        return ends(spark, stream)


def test_an_exception_in_one_sink_leaves_no_row_twice_and_none_out(
    spark: SparkSession, stream: Stream, undisturbed: Stream
) -> None:
    assert "a sink that fails" in str(ends_by_its_sink(spark, stream))
    assert {row["batch_id"] for row in stream.rows(METRICS)} == {0, 1}
    assert {row["batch_id"] for row in stream.rows("quarantined_events")} == {0}

    stream.run(spark)

    stream.assert_equal(spark, undisturbed)


@pytest.mark.slow
def test_optimize_and_quota_changes_of_others_meanwhile_disturb_nothing(
    spark: SparkSession, stream: Stream, undisturbed: Stream
) -> None:
    rounds: list[int] = []

    def disturb() -> None:
        # A compaction that loses the race against an append says so and is tried again.
        with suppress(DeltaError):
            DeltaTable(f"{stream.tables}/{METRICS}").optimize.compact()
            # A user who sends nothing: the quotas of all others stay the same.
            set_quota(stream.tables, 7 + len(rounds), "nobody")
            rounds.append(1)

    with repeating(disturb):
        stream.run(spark)

    assert len(rounds) > 1
    assert stream.everything() == undisturbed.everything()


def status_row(broker_id: int) -> pa.Table:
    return pa.Table.from_pylist([{"broker_id": broker_id}], row_schema("broker_status"))


@pytest.mark.parametrize("sink", ["deltalake", pytest.param("delta-spark", marks=pytest.mark.slow)])
def test_an_append_that_conflicts_with_a_change_of_the_tables_settings_is_tried_again(
    spark: SparkSession, tmp_path: Path, sink: SinkName, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables, marker = str(tmp_path / "tables"), tmp_path / "changed"
    create_missing(tables)
    place = f"{tables}/broker_status"

    def change_settings_once() -> None:
        if not marker.exists():
            marker.touch()
            DeltaTable(place).alter.set_table_properties({"delta.appendOnly": "true"})

    def open_slowly(root: str, name: str) -> DeltaTable:
        table = open_table(root, name)
        change_settings_once()
        return table

    def pass_slowly(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        change_settings_once()
        yield from frames

    # Between the beginning of an append and its commit: the one opens the table, the other runs a job.
    monkeypatch.setattr(deltalake_sink, "open_table", open_slowly)
    slow, ddl = Mock(spec=SparkSession), spark_ddl("broker_status")
    slow.createDataFrame.side_effect = lambda rows: spark.createDataFrame(rows).mapInPandas(pass_slowly, ddl)

    open_sink(tables, "s", sink).append(slow, status_row(5), "broker_status", 0)
    open_sink(tables, "s", sink).append(slow, status_row(5), "broker_status", 0)

    assert marker.exists()
    assert [row["broker_id"] for row in DeltaTable(place).to_pyarrow_table().to_pylist()] == [5]


def test_each_writer_knows_the_batches_that_the_other_has_written(spark: SparkSession, tmp_path: Path) -> None:
    tables = str(tmp_path / "tables")
    create_missing(tables)

    def append(sink: SinkName, number: int) -> None:
        open_sink(tables, "s", sink).append(spark, status_row(number), "broker_status", number)

    for number in range(4):
        writers: tuple[SinkName, ...] = ("deltalake", "delta-spark")
        for sink in writers if number % 2 else writers[::-1]:
            append(sink, number)

    rows = DeltaTable(f"{tables}/broker_status").to_pyarrow_table().to_pylist()
    assert sorted(row["broker_id"] for row in rows) == [0, 1, 2, 3]


@pytest.mark.parametrize("sink", ["deltalake", "delta-spark"])
@pytest.mark.parametrize("seen", ["deltalake", "delta-spark"])
def test_a_batch_that_another_stream_wrote_with_this_id_ends_the_stream(
    spark: SparkSession, tmp_path: Path, seen: SinkName, sink: SinkName
) -> None:
    tables = str(tmp_path / "tables")
    create_missing(tables)

    def append(sink: SinkName, batch_id: int, end: int, start: int = 10) -> None:
        commit = CommitMetadata("s", batch_id, ("broker_status",), {"events": {0: start}}, {"events": {0: end}})
        open_sink(tables, "s", sink).append(spark, status_row(batch_id), "broker_status", batch_id, commit)

    append(seen, 3, 20)
    # What is repeated after a kill has the same offsets.
    append(sink, 3, 20)
    with pytest.raises(StreamIdTakenError, match=r"holds batch 3 with .* 0 of events from 10 to 20, not from 10 to 25"):
        append(sink, 3, 25)
    with pytest.raises(StreamIdTakenError, match=r"holds batch 3 with .* from 10 to 20, not from 15 to 20"):
        append(sink, 3, 20, start=15)
    with pytest.raises(StreamIdTakenError, match=r"holds batch 3, while this stream writes batch 2.* --new-checkpoint"):
        append(sink, 2, 10)

    rows = DeltaTable(f"{tables}/broker_status").to_pyarrow_table().to_pylist()
    assert [row["broker_id"] for row in rows] == [3]


@pytest.mark.slow
def test_a_stream_may_change_its_writer_between_two_batches(
    spark: SparkSession, stream: Stream, undisturbed: Stream, tmp_path: Path
) -> None:
    ends_by_its_sink(spark, replace(stream, sink="deltalake"))

    replace(stream, sink="delta-spark").run(spark)

    stream.assert_equal(spark, undisturbed)


@contextmanager
def small_disk(folder: Path, size: str = "8m") -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a file system can't be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return ballast


@pytest.mark.parametrize("full", ["tables", "checkpoint"])
def test_a_full_disk_ends_the_stream_and_freed_space_lets_it_go_on(
    spark: SparkSession, stream: Stream, undisturbed: Stream, tmp_path: Path, full: str
) -> None:
    stream = replace(stream, root=tmp_path / "small", batch=1500)
    with small_disk(stream.root / full) as disk:
        stream.prepared()
        ballast = fill(disk)

        error = ends(spark, stream)
        assert "a disk is full: free space below --tables and --checkpoint" in str(error)
        ballast.unlink()
        stream.run(spark)

        stream.assert_as_undisturbed(spark)


def test_tables_that_become_read_only_end_the_stream_and_it_goes_on_when_they_can_be_written(
    spark: SparkSession, stream: Stream, undisturbed: Stream, tmp_path: Path
) -> None:
    stream = replace(stream, root=tmp_path / "small", batch=1500)
    with small_disk(stream.root / "tables", "64m") as disk:
        stream.prepared()
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)

        with pytest.raises(TableError, match="is not writable \\(Read-only file system\\)"):
            create_missing(stream.tables)
        assert "a file system is read-only: mount it for writing" in str(ends(spark, stream))
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        stream.run(spark)

        stream.assert_as_undisturbed(spark)
