import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest.mock import patch

import pytest
from confluent_kafka import Consumer, KafkaException

from broker.enforcement.lock import EnforcerLock
from broker.kafka.holds import HoldBindings
from broker.kafka.quota_entity import QuotaChange, QuotaEntity
from broker.kafka.quotas import ClientQuotas
from broker.kafka.topics import admin_client
from broker.local.local_broker import LocalBroker
from tests.kits.broker_kit import events_of, wait_until
from tests.kits.enforce_kit import EnforcerProcess, actions, decide, enforcing, quotas_of
from tests.kits.hostile_kit import Hostile, batch
from tests.kits.plugin_kit import ready_topic
from wire.holds import HoldBinding
from wire.topics import ENFORCER_TOPIC

MALLORY, HERS, SHARED = QuotaEntity("mallory"), "127.0.0.2", "127.0.0.3"
SLOWED = {"request_percentage": 0.01}
LIMITED = {"connection_creation_rate": 1.0}


@pytest.fixture(scope="module")
def broker(held_broker: LocalBroker) -> LocalBroker:
    return held_broker


def produce_from(broker: LocalBroker, user: str, address: str) -> int:
    """Return the PID."""
    topic = ready_topic(broker, f"of-{user}")
    with Hostile(broker, user, source=address) as client:
        pid = client.producer_id()
        client.produce(topic, batch(pid))
    return pid


def seconds_to_connect(broker: LocalBroker, user: str, address: str, times: int) -> float:
    """How long it takes to be let in so often; a broker keeps a connection over the rate waiting, then closes it."""
    began, done = time.monotonic(), 0
    while done < times:
        with suppress(ConnectionError), Hostile(broker, user, source=address):
            done += 1
    return time.monotonic() - began


def test_new_connections_wait_at_addresses_that_only_the_guilty_used(jars: Path, tmp_path: Path, tables: Path) -> None:
    # given a broker without the authorizer, and what the plugin saw of two users who share an address
    with LocalBroker(tmp_path / "kafka", jars=jars) as broker:
        broker.wait_for_plugin()
        used = [("mallory", HERS), ("mallory", SHARED), ("alice", SHARED)]
        events_of(broker, *(produce_from(broker, user, address) for user, address in used))
        with enforcing(broker, tables, "--apply") as enforcer:
            # when mallory is throttled, who came from both addresses
            enforcer.wait_for("lever")
            counted = [(HERS, 15), (SHARED, 5)]
            wait_until(lambda: knows_addresses(enforcer, broker, tables, counted), "an address is limited")

            # then hers alone is limited, where new connections wait and nowhere else
            assert quotas_of(broker) == {MALLORY: SLOWED, QuotaEntity(ip=HERS): LIMITED}
            slow = seconds_to_connect(broker, "mallory", HERS, 12)
            assert slow > 5 * seconds_to_connect(broker, "alice", SHARED, 12)

            # and it is free again when somebody else comes there
            produce_from(broker, "alice", HERS)
            enforcer.wait_for("restored", "User:alice uses the address, too")
            assert quotas_of(broker) == {MALLORY: SLOWED}
        assert quotas_of(broker) == {}


def knows_addresses(
    enforcer: EnforcerProcess, broker: LocalBroker, tables: Path, counted: list[tuple[str, int]]
) -> bool:
    """Renew the decision, as a stream does, until the enforcer has read the events of the last hour."""
    decide(tables, "User:mallory", seconds=600, addresses=counted)
    time.sleep(1)
    return QuotaEntity(ip=HERS) in quotas_of(broker)


@contextmanager
def sweeping_holds(broker: LocalBroker) -> Iterator[None]:
    """A stand-in for an operator that removes every ACL it does not know, every two seconds."""
    end = threading.Event()

    def sweep() -> None:
        with HoldBindings({"bootstrap_servers": broker.admin_servers}) as holds:
            while not end.wait(2):
                holds.remove(holds.all())

    thread = threading.Thread(target=sweep)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def test_an_end_that_moves_back_and_forth_is_ours_until_it_has_come(
    broker: LocalBroker, tables: Path, holds: HoldBindings
) -> None:
    def ends_at(seconds: float) -> bool:
        return [round(each.until_ms / 1000) for each in holds.of_user("mallory")] == [round(seconds)]

    with enforcing(broker, tables, "--apply") as enforcer:
        first = decide(tables, "User:mallory", seconds=600).timestamp()
        wait_until(lambda: ends_at(first), "the hold")
        sooner = decide(tables, "User:mallory", seconds=60, reason="quota_changed").timestamp()
        wait_until(lambda: ends_at(sooner), "it is shortened on the brokers")
        last = decide(tables, "User:mallory", seconds=90).timestamp()
        wait_until(lambda: ends_at(last), "it is extended")
        soon = decide(tables, "User:mallory", seconds=8, reason="quota_changed").timestamp()
        wait_until(lambda: ends_at(soon), "it is shortened again")
        enforcer.wait_for("restored", "its time is over")
        assert enforcer.notices_of("relinquished") == []
    assert actions(tables)[-1] == "restored"


def test_a_reconciler_is_reported_once_and_the_next_lever_is_used(
    broker: LocalBroker, tables: Path, holds: HoldBindings
) -> None:
    with enforcing(broker, tables, "--apply") as enforcer, sweeping_holds(broker):
        decide(tables, "User:mallory", seconds=600)
        wait_until(lambda: quotas_of(broker) == {MALLORY: SLOWED}, "the next lever")
        time.sleep(6)
        assert len(enforcer.notices_of("alert", "KafkaUser")) == 1
    assert quotas_of(broker) == {}


def test_a_release_ends_what_stands_and_its_exit_code_tells_whether_all_is_free(
    broker: LocalBroker, tables: Path, holds: HoldBindings
) -> None:
    # given a hold of ours without a lease, and one by hand
    until_ms = round(1000 * time.time()) + 600_000
    by_hand = HoldBinding("mallory", until_ms)
    holds.add(HoldBinding("mallory", until_ms, "0123456789abcdef"))
    holds.add(by_hand)

    # when mallory is released, then ours is gone, and the other one is named with its remedy
    code, errors = release(broker, tables)
    assert (code, by_hand.name in errors) == (1, True)
    assert "kafka-acls.sh --remove" in errors
    wait_until(lambda: holds.all() == [by_hand], "the one by hand is left")

    holds.remove([by_hand])
    wait_until(lambda: holds.all() == [], "mallory is free")
    assert release(broker, tables) == (0, "")


def test_a_lock_that_was_never_polled_answers_its_assignment_before_it_closes(held_broker: LocalBroker) -> None:
    # librdkafka may wait forever for an answer that it asks for while it closes.
    taken_while_closing: list[int] = []

    class Watched(Consumer):
        def close(self) -> None:
            before = lock.times_taken
            super().close()
            taken_while_closing.append(lock.times_taken - before)

    with patch("broker.enforcement.lock.Consumer", Watched):
        lock = EnforcerLock(held_broker.admin_config())
    admin = admin_client(held_broker.admin_config())

    def is_assigned() -> bool:
        try:
            group = admin.describe_consumer_groups([ENFORCER_TOPIC])[ENFORCER_TOPIC].result()
        except KafkaException:
            return False  # The coordinator does not know the group yet.
        return any(member.assignment.topic_partitions for member in group.members)

    wait_until(is_assigned, "the group's coordinator assigns the lock")
    time.sleep(0.5)  # The answer reaches the client.

    lock.close()
    assert taken_while_closing == [0]


def test_an_admin_s_quota_comes_back_exactly(broker: LocalBroker, tables: Path, holds: HoldBindings) -> None:
    with ClientQuotas({"bootstrap_servers": broker.admin_servers}) as quotas:
        quotas.alter([QuotaChange(MALLORY, "request_percentage", 33.5)])
        with enforcing(broker, tables, "--apply", "--lever", "request_percentage", "--no-narrow"):
            decide(tables, "User:mallory", seconds=6)
            wait_until(lambda: quotas.describe(MALLORY) == SLOWED, "the quota")
            wait_until(lambda: quotas.describe(MALLORY) == {"request_percentage": 33.5}, "the admin's")
        quotas.alter([QuotaChange(MALLORY, "request_percentage", None)])


def release(broker: LocalBroker, tables: Path) -> tuple[int, str]:
    process = EnforcerProcess(broker, tables, "--release", "mallory", "--pause-seconds", "60")
    process.start()
    return process.wait()
