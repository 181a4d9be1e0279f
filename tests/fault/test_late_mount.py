"""A checkpoint on a mount that shows files late, as Databricks' `/Volumes` may: what is late is not taken for gone."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from broker.local.local_broker import LocalBroker
from streaming.batch.context import carried_before, read_context
from streaming.checkpoint import own_files
from streaming.checkpoint.data_loss import load_loss_record
from streaming.checkpoint.spark_files import batch_offsets
from streaming.errors import CheckpointError
from tests.kits.batch_kit import run_batch
from tests.kits.broker_kit import new_topic
from tests.kits.fault_kit import Stream, send, set_quota, traffic
from tests.kits.late_mount import late_mount

DELAY_S = 1.0


def test_a_stream_decides_on_a_mount_that_lists_late_what_it_decides_on_a_disk(
    spark: SparkSession, broker: LocalBroker, tmp_path: Path
) -> None:
    # JVM, driver and workers are processes of their own: each sees the files of the others late.
    topic = new_topic(broker, "produce-events", 2)
    on_disk = Stream(tmp_path / "disk", broker.admin_servers, topic)
    on_mount = replace(on_disk, root=tmp_path / "mounted")
    with late_mount(tmp_path / "backing", on_mount.checkpoint, DELAY_S):
        for stream in (on_disk, on_mount):
            stream.prepared()
        for part, rate in enumerate((20, 5)):
            send(broker, topic, traffic(1200, first=1200 * part))
            for stream in (on_disk, on_mount):
                set_quota(stream.tables, rate, f"p{part}")
                stream.run(spark)

        assert on_mount.everything() == on_disk.everything()
        assert load_loss_record(str(on_mount.checkpoint)).losses == ()


@pytest.fixture
def checkpoint(tmp_path: Path) -> Iterator[str]:
    with late_mount(tmp_path / "backing", tmp_path / "mount", DELAY_S) as mount:
        yield str(mount)


def test_a_file_that_never_appears_ends_the_batch_with_its_name(
    checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_files, "APPEARS_WITHIN_S", 0.2)
    for batch_id in range(6):
        run_batch(Path(checkpoint), batch_id)

    with pytest.raises(CheckpointError, match="another stream runs on checkpoint"):
        read_context(checkpoint, 2)
    with pytest.raises(CheckpointError, match=r"7\.msgpack can't be read .*must see the same checkpoint folder"):
        read_context(checkpoint, 7)
    with pytest.raises(CheckpointError, match=r"6\.msgpack can't be read .*restore it from a backup"):
        carried_before(checkpoint, 7)
    with pytest.raises(CheckpointError, match=r"batch 7 runs, but .*offsets/7 can't be read"):
        batch_offsets(checkpoint, 7)
