"""A checkpoint on a mount that shows files late, as Databricks' `/Volumes` may: what is late is not taken for gone."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from broker.local.local_broker import LocalBroker
from quota.limits import Limit, Quotas
from streaming.batch.batch_ends import tracked_principals_before, write_end
from streaming.batch.batch_quotas import quotas_id_at, write_quotas
from streaming.batch.event_times import MAX_EVENT_TIME
from streaming.batch.tracked_principals import TRACKED, code_of
from streaming.checkpoint import own_files
from streaming.checkpoint.data_loss import load_loss_record
from streaming.checkpoint.spark_files import batch_offsets
from streaming.errors import CheckpointError
from tests.kits.broker_kit import new_topic
from tests.kits.fault_kit import Stream, send, set_quota, traffic
from tests.kits.late_mount import late_mount

DELAY_S = 1.0
READER = """
import json, sys
from streaming.batch.batch_ends import event_times_before, tracked_principals_before
from streaming.batch.batch_quotas import quotas_id_at, quotas_of_id
from streaming.checkpoint.spark_files import batch_offsets
functions = {
    "batch_offsets": batch_offsets,
    "default_rate": lambda *of: quotas_of_id(of[0], quotas_id_at(*of)).default.producer_ids_rate,
    "tracked_and_time": lambda *of: [len(tracked_principals_before(*of)), event_times_before(*of).max_event_time_ms[0]],
}
for line in sys.stdin:
    function, *arguments = json.loads(line)
    print(json.dumps(functions[function](*arguments)), flush=True)
"""


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
        (mount / "offsets").mkdir()
        yield str(mount)


class OtherMachine:
    """A process, which sees the mount as another machine does."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def reads(self, function: str, *arguments: object) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([function, *arguments]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@pytest.fixture
def other() -> Iterator[OtherMachine]:
    command = [sys.executable, "-c", READER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        machine = OtherMachine(process)
        # It has imported what it needs.
        machine.reads("batch_offsets", "", -1)
        yield machine
        process.kill()


def test_a_worker_finds_the_quotas_of_its_batch_and_no_older_ones(checkpoint: str, other: OtherMachine) -> None:
    found = []
    for batch_id, rate in enumerate((1000.0, 10.0, 10.0, 5.0)):
        # A large file is copied in many steps.
        users = {f"user-{number}": Limit(rate, "user") for number in range(5000)}
        write_quotas(checkpoint, batch_id, Quotas(users, Limit(rate, "default")))
        found.append(other.reads("default_rate", checkpoint, batch_id))

    assert found == [1000.0, 10.0, 10.0, 5.0]


def test_another_machine_finds_what_holds_after_the_batch_before(checkpoint: str, other: OtherMachine) -> None:
    for batch_id in range(3):
        reported: dict[str, list[Any]] = {TRACKED: [code_of(f"User:{batch_id}")], MAX_EVENT_TIME: [(0, 900 * batch_id)]}
        write_end(checkpoint, batch_id, reported)

        assert other.reads("tracked_and_time", checkpoint, batch_id + 1) == [batch_id + 1, 900 * batch_id]


def test_offsets_that_are_not_seen_yet_are_no_loss(checkpoint: str, other: OtherMachine) -> None:
    for batch_id, end in ((6, 40), (7, 55)):
        Path(checkpoint, "offsets", str(batch_id)).write_text(f'v1\n{{}}\n{{"t":{{"0":{end}}}}}')

        assert other.reads("batch_offsets", checkpoint, batch_id) == {"t": {"0": end}}


def test_a_file_that_never_appears_ends_the_batch_with_its_name(
    checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_files, "APPEARS_WITHIN_S", 0.2)
    write_quotas(checkpoint, 6, Quotas())
    write_end(checkpoint, 0, {})
    Path(checkpoint, "offsets", "6").write_text("v1\n{}\n{}")

    with pytest.raises(CheckpointError, match="another stream runs on checkpoint"):
        quotas_id_at(checkpoint, 3)
    with pytest.raises(CheckpointError, match=r"7\.msgpack can't be read .*workers must see the checkpoint's folder"):
        quotas_id_at(checkpoint, 7)
    with pytest.raises(CheckpointError, match=r"6\.msgpack can't be read"):
        tracked_principals_before(checkpoint, 7)
    with pytest.raises(CheckpointError, match=r"batch 7 runs, but .*offsets/7 can't be read"):
        batch_offsets(checkpoint, 7)
