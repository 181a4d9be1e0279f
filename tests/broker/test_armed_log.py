"""`tap --armed-by-growth` on a real broker: its log is off while few producer ids come, and on while many do."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from broker.cluster.cluster_admin import ClusterAdmin
from broker.cluster.kafka_config import KafkaConfig
from broker.cluster.logging_levels import BROKER_LOGGERS, switch_logging
from broker.cluster.topics import ensure_topics
from broker.local.local_broker import LocalBroker
from broker.tap.armed_log import ArmedLog
from broker.tap.asking import Questions, ask_brokers
from broker.tap.source_tap import SourceTap
from jobs.cli import run
from tests.broker.test_enforce_rights import grant
from tests.broker_kit import LIMIT_S, file_tap, new_topic, read_events, running, wait_until, wait_until_idle

FAST_PER_S = 0.5


@pytest.fixture(scope="module")
def owned(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """A broker of our own, whose log is switched."""
    with LocalBroker(tmp_path_factory.mktemp("owned"), jars=jars) as started:
        ensure_topics(started.admin_config())
        yield started


@pytest.fixture
def admin(owned: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterAdmin]:
    """Its log is off. Growth is averaged over seconds, not half a minute."""
    monkeypatch.setattr("broker.tap.arming.WINDOW_S", 4.0)
    with ClusterAdmin(KafkaConfig.load(owned.admin_servers).kafka_python()) as opened:
        switch_logging(opened, on=False)
        yield opened


def levels(admin: ClusterAdmin) -> set[str]:
    now = admin.logger_levels(1)
    return {now[logger] for logger in BROKER_LOGGERS}


def lines(broker: LocalBroker) -> int:
    return broker.log_file.read_bytes().count(b"\n")


def idempotent_producer(broker: LocalBroker, user: str) -> Producer:
    return Producer({**broker.client_config(user), "enable.idempotence": True, "log_level": 3})


def send(producer: Producer, topic: str) -> None:
    producer.produce(topic, b"value", partition=0)
    assert producer.flush(LIMIT_S) == 0


@contextmanager
def armed_tap(
    broker: LocalBroker, events_topic: str, position_file: Path, said: list[str], at_per_s: float = FAST_PER_S
) -> Iterator[tuple[ArmedLog, SourceTap]]:
    settings = KafkaConfig(broker.admin_config()).kafka_python()
    file = position_file.with_name(position_file.name + ".armed")
    armed = ArmedLog(settings, 1, file, at_per_s, calm_s=3.0, count_s=1.0, say=said.append)
    tap = file_tap(
        broker.log_file,
        1,
        broker.admin_config(),
        topic=events_topic,
        from_end=True,
        position_file=position_file,
        every_batch=True,
        learn_seconds=3600.0,
        questions=Questions(held_ids=ask_brokers(settings), say=said.append, is_calm=lambda: armed.is_calm),
    )
    with armed.running(threading.Event()), running(tap):
        wait_until_idle(tap)
        yield armed, tap


def flood_until_on(broker: LocalBroker, admin: ClusterAdmin, topic: str) -> None:
    def is_on() -> bool:
        send(idempotent_producer(broker, "mallory"), topic)
        return levels(admin) == {"TRACE"}

    wait_until(is_on, "the log is on")


def test_while_calm_nothing_is_logged_and_the_status_says_so(
    owned: LocalBroker, admin: ClusterAdmin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    orders, steady, before = new_topic(owned, "orders"), idempotent_producer(owned, "alice"), lines(owned)

    with armed_tap(owned, new_topic(owned, "events"), tmp_path / "position", [], at_per_s=10.0) as (armed, tap):
        for _ in range(50):
            send(steady, orders)
        wait_until_idle(tap)
        assert run(["tap", "status", "--bootstrap-servers", owned.admin_servers]) == 0

        assert armed.is_calm
        assert (levels(admin), lines(owned)) == ({"INFO"}, before)
    assert "calm, not logging" in capsys.readouterr().out


def test_a_flood_switches_it_on_old_ids_are_learned_and_calm_switches_it_off(
    owned: LocalBroker, admin: ClusterAdmin, tmp_path: Path
) -> None:
    orders, events, said = new_topic(owned, "orders"), new_topic(owned, "events"), list[str]()
    old = idempotent_producer(owned, "alice")
    send(old, orders)

    with armed_tap(owned, events, tmp_path / "position", said) as (armed, tap):
        flood_until_on(owned, admin, orders)
        # The first line of the watch, and then the answer to what was there before.
        send(old, orders)
        wait_until(lambda: any("there before" in each for each in said), "the answer")
        send(old, orders)
        newcomer = idempotent_producer(owned, "admin")
        send(newcomer, orders)
        wait_until(lambda: armed.is_calm, "calm")

        assert levels(admin) == {"INFO"}
        before = lines(owned)
        send(newcomer, orders)
        wait_until_idle(tap)
        assert lines(owned) == before

    marks = [(key, each.get("learning", False)) for key, each in read_events(owned, events)]
    assert {learning for key, learning in marks if key == "User:alice"} == {True}
    assert [learning for key, learning in marks if key == "User:admin"] == [False]
    assert not (tmp_path / "position.armed").exists()


def test_what_a_killed_tap_has_switched_on_the_next_run_switches_off(
    owned: LocalBroker, admin: ClusterAdmin, tmp_path: Path
) -> None:
    orders, events, position = new_topic(owned, "orders"), new_topic(owned, "events"), tmp_path / "position"
    options = ["--bootstrap-servers", owned.admin_servers, "--topic", events, "--position-file", str(position)]
    options += ["--log-file", str(owned.log_file), "--broker-id", "1", "--armed-by-growth", "--arm-at", "0.05"]
    killed = subprocess.Popen([sys.executable, "-m", "jobs", "tap", *options], stdout=subprocess.DEVNULL)
    try:
        flood_until_on(owned, admin, orders)
    finally:
        killed.kill()
        killed.wait(LIMIT_S)
    assert levels(admin) == {"TRACE"}

    with armed_tap(owned, events, position, [], at_per_s=1000.0) as (armed, _):
        wait_until(lambda: armed.is_calm, "calm")
        assert levels(admin) == {"INFO"}


def test_a_tap_that_ends_leaves_the_levels_as_it_found_them(
    owned: LocalBroker, admin: ClusterAdmin, tmp_path: Path
) -> None:
    with armed_tap(owned, new_topic(owned, "events"), tmp_path / "position", []):
        flood_until_on(owned, admin, new_topic(owned, "orders"))

    assert levels(admin) == {"INFO"}
    assert not (tmp_path / "position.armed").exists()


def test_a_logger_that_somebody_switches_off_meanwhile_is_no_reason_to_leave_the_other_on(
    owned: LocalBroker, admin: ClusterAdmin, tmp_path: Path
) -> None:
    orders = new_topic(owned, "orders")
    with armed_tap(owned, new_topic(owned, "events"), tmp_path / "position", []):
        flood_until_on(owned, admin, orders)
        admin.set_logger_levels(1, {BROKER_LOGGERS[0]: "INFO"})
        flood_until_on(owned, admin, orders)
        # Now while they come slowly: nobody switches it on again.
        admin.set_logger_levels(1, {BROKER_LOGGERS[0]: "INFO"})

    assert levels(admin) == {"INFO"}


def test_a_log_that_somebody_else_has_switched_on_stays_on(
    owned: LocalBroker, admin: ClusterAdmin, tmp_path: Path
) -> None:
    switch_logging(admin, on=True)
    said = list[str]()

    with armed_tap(owned, new_topic(owned, "events"), tmp_path / "position", said, at_per_s=1000.0) as (armed, tap):
        send(idempotent_producer(owned, "alice"), new_topic(owned, "orders"))
        wait_until(lambda: tap.counters.events >= 1, "the event")
        assert not armed.is_calm
    assert levels(admin) == {"TRACE"}
    assert "was not switched on by this tap" in said[0]


def test_without_the_right_to_change_levels_it_ends_and_names_it(
    owned: LocalBroker, admin: ClusterAdmin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    client = AdminClient({**owned.admin_config()})
    grant(client, "alice", AclOperation.DESCRIBE_CONFIGS)
    settings = tmp_path / "client.properties"
    settings.write_text("".join(f"{name}={value}\n" for name, value in owned.client_config("alice").items()))
    try:
        options = ["--bootstrap-servers", owned.bootstrap_servers, "--kafka-config", str(settings)]
        options += ["--log-file", str(owned.log_file), "--broker-id", "1", "--position-file", str(tmp_path / "p")]
        code = run(["tap", *options, "--armed-by-growth"])
    finally:
        kinds: tuple[Any, ...] = (
            ResourceType.ANY,
            None,
            ResourcePatternType.ANY,
            None,
            None,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        for deleted in client.delete_acls([AclBindingFilter(*kinds)]).values():
            deleted.result()

    assert code == 1
    assert "DESCRIBE_CONFIGS and ALTER_CONFIGS on the cluster" in capsys.readouterr().err
