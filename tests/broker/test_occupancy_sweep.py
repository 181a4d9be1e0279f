"""Compares a census of a real broker with the broker's own count, also after a shorter expiration."""

import json
import shlex
import subprocess
import time
import uuid
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from broker.local.local_broker import LocalBroker
from broker.occupancy.census import TakenCensus
from broker.occupancy.census_report import make_report
from jobs.cli import run
from jvm.jar_sets import kafka_classpath
from jvm.java import find_java
from lifecycle.expiration_change import freed_by
from tables.query.sql_query import query
from tests.kits.admin_kit import alter
from tests.kits.broker_kit import (
    LIMIT_S,
    new_topic,
    produce,
    transactional_producer,
    wait_for_events,
    wait_until,
)
from tests.kits.expiry_kit import DEFAULT_EXPIRATION_MS, PartitionProducers
from tests.kits.occupancy_kit import broker_counts, census_of, fill

EXPIRATION = "producer.id.expiration.ms"
HOUR_MS = 3_600_000
CHECK_INTERVAL_MS = 200
NEW_EXPIRATION_MS = 2 * HOUR_MS


@pytest.fixture(scope="module")
def broker(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """A broker that looks for expired producers all the time: nobody can wait for ten minutes here."""
    folder = tmp_path_factory.mktemp("kafka")
    with LocalBroker(folder, jars=jars, producer_id_expiration_check_interval_ms=CHECK_INTERVAL_MS) as running_broker:
        yield running_broker


@pytest.fixture
def first_pid() -> int:
    """Producer ids of a test's own."""
    return uuid.uuid4().int % 2**40 + 1_000_000


def held_of(taken: TakenCensus, topic: str) -> set[int]:
    return {int(pid) for each in taken.census.replicas if each.topic == topic for pid in each.producer_ids}


def fill_with_ages(broker: LocalBroker, topic: str, first_pid: int, hours: list[float]) -> int:
    """Producers that fell silent so many hours ago; returns our clock."""
    now_ms = round(time.time() * 1000)
    batches = [(first_pid + number, now_ms - round(age * HOUR_MS)) for number, age in enumerate(hours)]
    fill(broker.admin_servers, topic, {0: 1}, {0: batches})
    return now_ms


def run_as_told(command: str, jars: Path) -> None:
    """Run a `kafka-configs.sh` command, word for word, by the class that the script starts."""
    script, *arguments = shlex.split(command)
    assert script == "kafka-configs.sh"
    java = [find_java(), "-XX:TieredStopAtLevel=1", "-cp", kafka_classpath(jars), "kafka.admin.ConfigCommand"]
    subprocess.run([*java, *arguments], check=True, capture_output=True, timeout=LIMIT_S)


def wait_for_expirations(broker: LocalBroker, told: list[tuple[int, bool]]) -> None:
    """Until the broker tells so: it acts on a change a moment after the controller has taken it."""
    wait_until(lambda: expirations_of(census_of(broker.admin_servers)) == told, f"expirations of {told}")


def expirations_of(taken: TakenCensus) -> list[tuple[int, bool]]:
    return [(each.producer_id_ms, each.is_own) for each in taken.expirations]


def test_a_sweep_finds_what_the_broker_itself_counts(broker: LocalBroker, first_pid: int) -> None:
    topic = new_topic(broker, "orders", partitions=3)
    now_ms = round(time.time() * 1000)
    batches = {partition: [(first_pid + pid, now_ms) for pid in range(10 * (partition + 1))] for partition in range(3)}
    fill(broker.admin_servers, topic, dict.fromkeys(range(3), 1), batches)

    taken = census_of(broker.admin_servers)

    assert [taken.census.held(1)] == broker_counts(broker.pid)
    # A producer id on three partitions takes memory three times.
    assert sum(len(each) for each in taken.census.replicas if each.topic == topic) == 60
    assert len(held_of(taken, topic)) == 30
    assert taken.unanswered == ()
    (settings,) = taken.expirations
    assert (settings.producer_id_ms, settings.transactional_id_ms, settings.is_own) == (
        DEFAULT_EXPIRATION_MS,
        7 * DEFAULT_EXPIRATION_MS,
        False,
    )
    assert settings.check_interval_ms == CHECK_INTERVAL_MS


def test_producers_whose_records_are_deleted_are_held_as_before(broker: LocalBroker, first_pid: int) -> None:
    topic = new_topic(broker, "orders")
    fill_with_ages(broker, topic, first_pid, [0.0] * 5)

    whole = TopicPartition(topic, 0, 5)
    admin = AdminClient({**broker.admin_config()})
    deleted = admin.delete_records([whole])[whole].result(LIMIT_S)

    assert deleted.low_watermark == 5
    assert held_of(census_of(broker.admin_servers), topic) == {first_pid + number for number in range(5)}


@pytest.mark.slow
def test_the_model_foretells_what_the_broker_forgets_when_the_printed_command_is_run(
    broker: LocalBroker, jars: Path, first_pid: int
) -> None:
    topic = new_topic(broker, "orders")
    ages = [0.0, 0.5, 1.9, 2.1, 3.0, 7.5, 12.0, 23.0]
    now_ms = fill_with_ages(broker, topic, first_pid, ages * 5)
    # Open, and its last batch is as old as the client says.
    open_one = transactional_producer(broker.client_config("alice"), "open")
    open_one.begin_transaction()
    open_one.produce(topic, b"value", partition=0, timestamp=now_ms - 10 * HOUR_MS)
    assert open_one.flush(LIMIT_S) == 0

    taken = census_of(broker.admin_servers)
    before = held_of(taken, topic)
    (freed,) = freed_by(taken.census, NEW_EXPIRATION_MS)
    model = PartitionProducers(now_ms, NEW_EXPIRATION_MS, CHECK_INTERVAL_MS)
    (replica,) = [each for each in taken.census.replicas if each.topic == topic]
    rows = zip(replica.producer_ids, replica.last_timestamps_ms, replica.in_transaction, strict=True)
    for pid, timestamp_ms, is_open in rows:
        model.append(int(pid), int(timestamp_ms), transactional=bool(is_open))
    foretold = set(model.advance(taken.census.taken_at_ms + 1000))
    report = make_report(taken, {}, expiration_ms=NEW_EXPIRATION_MS, bootstrap_servers=broker.admin_servers)
    assert report.what_if is not None

    (command,) = report.what_if.commands
    run_as_told(command, jars)
    try:
        wait_until(lambda: not held_of(census_of(broker.admin_servers), topic) & foretold, "the broker forgets")
        wait_for_expirations(broker, [(NEW_EXPIRATION_MS, False)])
        after = census_of(broker.admin_servers)
        assert after.expirations[0].producer_id_ms == NEW_EXPIRATION_MS
        # Those and no others; the open transaction stays.
        assert before - held_of(after, topic) == foretold
        assert (len(foretold), freed.freed_pids, freed.kept_open) == (25, 25, 1)
        assert broker_counts(broker.pid) == [taken.census.held(1) - freed.freed_pids]
    finally:
        run_as_told(command.replace("--add-config", "--delete-config").rpartition("=")[0], jars)
        open_one.abort_transaction(LIMIT_S)


def test_a_broker_with_a_setting_of_its_own_gets_a_command_that_reaches_it(broker: LocalBroker, jars: Path) -> None:
    alter(broker, {EXPIRATION: str(5 * HOUR_MS)})
    try:
        wait_for_expirations(broker, [(5 * HOUR_MS, True)])
        taken = census_of(broker.admin_servers)
        report = make_report(taken, {}, expiration_ms=NEW_EXPIRATION_MS, bootstrap_servers=broker.admin_servers)
        assert report.what_if is not None
        _, of_its_own = report.what_if.commands
        run_as_told(of_its_own, jars)
        wait_for_expirations(broker, [(NEW_EXPIRATION_MS, True)])
        now = census_of(broker.admin_servers)
    finally:
        alter(broker, {EXPIRATION: None})

    assert expirations_of(taken) == [(5 * HOUR_MS, True)]
    assert [each.producer_id_ms for each in now.expirations] == [NEW_EXPIRATION_MS]


def test_the_command_names_owners_that_the_plugin_has_seen_and_keeps_the_sweep(
    broker: LocalBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker.wait_for_plugin()
    topic = new_topic(broker, "orders")
    for user, producers in (("alice", 2), ("mallory", 5)):
        for _ in range(producers):
            produce(broker.client_config(user), topic)
    wait_for_events(
        broker,
        lambda event: event.topic == topic,
        lambda events: len({event.producer_id for event in events}) == 7,
    )
    servers = ["--bootstrap-server", broker.admin_servers]

    code = run(["occupancy", *servers, "--tables", str(tmp_path), "--json", "--max-pids-per-broker", "1000000"])
    said = json.loads(capsys.readouterr().out)

    assert code == 0
    mine = {row["principal"]: row for row in said["occupancy"] if row["topic"] == topic}
    assert {principal: (row["led_pids"], row["held_pids"]) for principal, row in mine.items()} == {
        "User:alice": (2, 2),
        "User:mallory": (5, 5),
    }
    (one,) = said["brokers"]
    assert [one["held_pids"]] == broker_counts(broker.pid)
    assert one["pids_in_24h"] >= one["held_pids"] - one["open_transactions"]
    kept = query(str(tmp_path), "TABLE occupancy_now", datetime.now(timezone.utc)).records()
    assert {row["principal"]: row["held_pids"] for row in kept if row["topic"] == topic} == {
        "User:alice": 2,
        "User:mallory": 5,
    }
    assert run(["occupancy", *servers, "--expiration-ms", "3600000"]) == 0
    assert "kafka-configs.sh" in capsys.readouterr().out
