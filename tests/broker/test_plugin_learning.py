"""The plugin tells producer ids from before its watch by their number, on any metadata log and over restarts."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from broker.kafka.topics import admin_client, existing_topics
from broker.local.local_broker import LocalBroker
from broker.local.server_files import HOST, Ports
from broker.local.server_process import Jvm
from jvm.java import find_java
from jvm.process import run_to_end
from tests.broker.local_cluster import LocalCluster
from tests.kits.broker_kit import (
    LIMIT_S,
    events_of,
    make_topic,
    produce_in_transactions,
    reports_of,
    restart,
    transactional_producer,
    wait_for_report,
    wait_until,
)
from tests.kits.hostile_kit import Hostile, batch
from tests.kits.plugin_kit import NO_PLUGIN, ready_topic, switch
from wire.plugin_reports import AliveReport, BlockReport, StartReport
from wire.topics import REPORTS

BLOCK = 1000
IN_FIRST_BATCH = 70
"""A byte of the metadata log's first batch, behind its header."""
SMALL: dict[str, Any] = {
    "metadata_log_max_record_bytes_between_snapshots": 2000,
    "internal_metadata_log_segment_bytes": 2000,
    "metadata_max_retention_bytes": 4000,
    "metadata_max_idle_interval_ms": 10,
}
"""A metadata log that soon loses its beginning."""


def state_file(broker: LocalBroker) -> Path:
    return broker.folder / "data" / "pid-quota.state"


def newest_start(broker: LocalBroker | LocalCluster, count: int, broker_id: int = 1) -> StartReport:
    """The newest report of a broker's starts, once there are this many."""
    found: list[StartReport] = []

    def are_there() -> bool:
        found[:] = [each for each in reports_of(broker, StartReport) if each.broker_id == broker_id]
        return len(found) >= count

    wait_until(are_there, f"{count} starts")
    return found[-1]


def load(broker: LocalBroker) -> None:
    """Load the plugin into a running broker."""
    switch(broker, on=True)
    broker.wait_for_plugin()


def take_ids(client: Hostile, count: int) -> int:
    """Ask for PIDs; return the last one."""
    return [client.producer_id() for _ in range(count)][-1]


def used(client: Hostile, topic: str) -> int:
    """A new PID with one batch in a topic."""
    pid = client.producer_id()
    client.produce(topic, batch(pid))
    return pid


@pytest.fixture
def living(tmp_path: Path, jars: Path) -> Iterator[LocalBroker]:
    """A broker without the plugin, which has handed out PIDs."""
    with LocalBroker(tmp_path, jars=jars, metric_reporters=NO_PLUGIN) as broker:
        yield broker


def test_pids_from_before_are_learned_and_later_ones_are_not(living: LocalBroker) -> None:
    topic = ready_topic(living, "orders")
    transactional = transactional_producer(living.client_config("alice"), "from-before")
    with Hostile(living, "alice") as alice:
        old = [used(alice, topic) for _ in range(20)]
        take_ids(alice, BLOCK)

        load(living)
        start = newest_start(living, 1)
        for pid in old:
            alice.produce(topic, batch(pid, sequence=1))
        produce_in_transactions(transactional, topic)
        later = take_ids(alice, 2 * BLOCK)
        alice.produce(topic, batch(later))

        assert start.learns_below == 2 * BLOCK
        assert {each.learning for each in events_of(living, *old)} == {True}
        assert {each.learning for each in events_of(living, later)} == {False}


def test_a_restart_within_a_window_keeps_the_bound_and_a_longer_absence_begins_anew(living: LocalBroker) -> None:
    load(living)
    first = newest_start(living, 1)
    with Hostile(living, "alice") as alice:
        take_ids(alice, BLOCK + 1)

    restart_with_plugin(living)
    again = newest_start(living, 2)
    assert (again.learns_below, again.learns_until_ms) == (first.learns_below, first.learns_until_ms)

    # when nobody can tell what the watch was
    for number, content in enumerate([None, "cluster_id=another\n", "\0garbage\\u"], start=3):
        living.stop()
        if content is None:
            state_file(living).unlink()
        else:
            state_file(living).write_text(content)
        living.start()
        assert (newest_start(living, number).learns_below or 0) >= 2 * BLOCK
    assert living.server_log.read_text().count("so a new watch begins (pidquota.Reporter)") == 1


def restart_with_plugin(broker: LocalBroker) -> None:
    """Loading at run time is a dynamic setting, which outlives a restart."""
    restart(broker)
    broker.wait_for_plugin()


def trimmed_log(broker: LocalBroker) -> Path:
    """The folder of the metadata log, once Kafka has deleted its beginning."""
    log = broker.folder / "data" / "__cluster_metadata-0"
    wait_until(lambda: min(int(each.stem) for each in log.glob("*.log")) > 0, "the log has lost its beginning")
    return log


def test_a_damaged_metadata_log_gives_no_bound(living: LocalBroker) -> None:
    topic = ready_topic(living, "orders")
    with Hostile(living, "alice") as alice:
        old = used(alice, topic)
        with (living.folder / "data" / "__cluster_metadata-0" / f"{0:020}.log").open("r+b") as log:
            log.seek(IN_FIRST_BATCH)
            byte = log.read(1)
            log.seek(IN_FIRST_BATCH)
            log.write(bytes([byte[0] ^ 1]))

        switch(living, on=True)

        wait_until(lambda: REPORTS in existing_topics(admin_client(living.admin_config())), "the topic of reports")
        start = newest_start(living, 1)
        assert (start.learns_below, start.next_producer_id) == (None, None)
        assert "can't read the metadata log" in (start.problem or "")
        alice.produce(topic, batch(old, sequence=1))
        assert [each.learning for each in events_of(living, old)] == [True]


class StandaloneBroker(LocalBroker):
    """A broker of a cluster that was formatted with `--standalone` (KIP-853)."""

    def _start_on(self, ports: Ports) -> None:
        self._extra |= {
            "controller.quorum.voters": "",
            "controller.quorum.bootstrap.servers": f"{HOST}:{ports.controller}",
        }
        super()._start_on(ports)

    def format(self, jvm: Jvm, cluster_id: str) -> None:
        if not (self.folder / "data" / "meta.properties").exists():
            tool = ["kafka.tools.StorageTool", "format", "--standalone", "--cluster-id", cluster_id]
            command = [find_java(), "-cp", jvm.whole_classpath, *tool, "--config", str(self.properties)]
            code, answer = run_to_end(command, LIMIT_S)
            assert code == 0, answer


@pytest.mark.slow
def test_blocks_are_read_on_a_cluster_with_dynamic_voters(tmp_path: Path, jars: Path) -> None:
    often: dict[str, Any] = {"metadata_log_max_record_bytes_between_snapshots": 1}
    with StandaloneBroker(tmp_path, jars=jars, **often) as broker:
        with Hostile(broker, "alice") as alice:
            take_ids(alice, 2 * BLOCK + 1)
        wait_for_report(broker, AliveReport, lambda each: each.next_producer_id == 3 * BLOCK)

        state_file_is_lost_and_snapshots_are_all_there_is(broker)
        assert newest_start(broker, 2).learns_below == 3 * BLOCK


def state_file_is_lost_and_snapshots_are_all_there_is(broker: LocalBroker) -> None:
    broker.stop()
    state_file(broker).unlink()
    broker.start()
    broker.wait_for_plugin()


@pytest.mark.slow
def test_blocks_are_read_from_a_trimmed_log(tmp_path: Path, jars: Path) -> None:
    with LocalBroker(tmp_path, jars=jars, **SMALL) as broker:
        with Hostile(broker, "alice") as alice:
            take_ids(alice, 2 * BLOCK + 1)
        trimmed_log(broker)

        state_file_is_lost_and_snapshots_are_all_there_is(broker)
        assert newest_start(broker, 2).learns_below == 3 * BLOCK


@pytest.mark.slow
def test_a_log_without_beginning_and_snapshots_gives_no_bound(tmp_path: Path, jars: Path) -> None:
    with LocalBroker(tmp_path, jars=jars, metric_reporters=NO_PLUGIN, **SMALL) as broker:
        topic = ready_topic(broker, "orders")
        log = trimmed_log(broker)
    # A broker with the usual settings makes no snapshot soon.
    with LocalBroker(tmp_path, jars=jars, metric_reporters=NO_PLUGIN) as broker:
        for snapshot in log.glob("*.checkpoint"):
            snapshot.unlink()

        load(broker)

        start = newest_start(broker, 1)
        assert (start.next_producer_id, start.learns_below) == (None, None)
        with Hostile(broker, "alice") as alice:
            pid = used(alice, topic)
        assert [each.learning for each in events_of(broker, pid)][:1] == [True]


@pytest.mark.slow
def test_each_block_is_reported_once_with_its_owner(tmp_path: Path, jars: Path) -> None:
    with LocalBroker(tmp_path, jars=jars) as broker:
        with Hostile(broker, "alice") as alice:
            take_ids(alice, BLOCK + 1)
        wait_until(lambda: len(reports_of(broker, BlockReport)) == 2, "two blocks")
        restart_with_plugin(broker)
        with Hostile(broker, "alice") as alice:
            take_ids(alice, 1)
        wait_until(lambda: len(reports_of(broker, BlockReport)) == 3, "a block after the restart")
        blocks = reports_of(broker, BlockReport)
    assert [(each.broker_id, each.first_producer_id, each.length) for each in blocks] == [
        (1, 0, BLOCK),
        (1, BLOCK, BLOCK),
        (1, 2 * BLOCK, BLOCK),
    ]
    assert len({each.broker_epoch for each in blocks[:2]}) == 1
    assert blocks[2].broker_epoch != blocks[0].broker_epoch


@pytest.mark.slow
def test_a_broker_that_was_down_learns_what_the_others_handed_out_meanwhile(tmp_path: Path, jars: Path) -> None:
    with LocalCluster(tmp_path, jars=jars, pid_quota_window_ms=1000) as cluster:
        cluster.wait_for_plugin()
        make_topic(cluster, "orders", 1, 3)
        before = newest_start(cluster, 1, broker_id=3)
        cluster.stop(3)
        with ExitStack() as stack:
            clients = [stack.enter_context(Hostile(cluster, "alice", node=node)) for node in (1, 2)]
            for client in clients:
                take_ids(client, 5 * BLOCK // 2)
        cluster.start(3)
        cluster.wait_for_plugin(3)

        after = newest_start(cluster, 2, broker_id=3)
        assert (after.learns_below or 0) - (before.learns_below or 0) >= 5 * BLOCK
