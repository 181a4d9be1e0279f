"""A checkpoint on a mount that shows files late, as Databricks' `/Volumes` may: what is late is not taken for gone."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from broker.local.local_broker import LocalBroker
from jvm.process import reading
from streaming.batch.context import carried_before, read_context
from streaming.checkpoint import own_files
from streaming.checkpoint.data_loss import load_loss_record
from streaming.checkpoint.spark_files import batch_offsets
from streaming.errors import CheckpointError
from tests.kits.batch_kit import run_batch
from tests.kits.broker_kit import new_topic
from tests.kits.fault_kit import Stream, send, set_quota, traffic

DELAY_S = 1.0


@contextmanager
def late_mount(backing: Path, mount: Path) -> Iterator[Path]:
    """Mount a folder with the limits of Databricks' `/Volumes`."""
    for folder in (backing, mount):
        folder.mkdir(parents=True, exist_ok=True)
    with reading([sys.executable, "-m", "tests.kits.late_files", str(backing), str(mount), str(DELAY_S)]) as server:
        said = ""
        while not os.path.ismount(mount):
            if server.poll() is not None:
                assert server.stdout
                said = server.stdout.read()
                pytest.skip(f"a file system can't be mounted here: {said.strip()[-300:]}")
            time.sleep(0.05)
        try:
            yield mount
        finally:
            subprocess.run(["umount", "-l", str(mount)], check=True)


def test_a_stream_decides_on_a_mount_that_lists_late_what_it_decides_on_a_disk(
    spark: SparkSession, broker: LocalBroker, tmp_path: Path
) -> None:
    # JVM, driver and workers are processes of their own: each sees the files of the others late.
    topic = new_topic(broker, "produce-events", 2)
    on_disk = Stream(tmp_path / "disk", broker.admin_servers, topic)
    on_mount = replace(on_disk, root=tmp_path / "mounted")
    with late_mount(tmp_path / "backing", on_mount.checkpoint):
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
    with late_mount(tmp_path / "backing", tmp_path / "mount") as mount:
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
