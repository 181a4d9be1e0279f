"""Clients that may only open a connection, against a real broker and the real `pid-quota tap`.

What is promised: no wrong owner, ever; nothing unseen without being said; the tap never ends for what a client wrote.
"""

import json
import threading
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from broker.kafka.topics import ensure_topic, ensure_topics
from broker.local.local_broker import LocalBroker
from tests.kits.broker_kit import end_offset, read_events, wait_until
from tests.kits.class_kit import batches_of
from tests.kits.hostile_kit import Hostile, TapCommand, batch, giant_topics, principals
from wire.topics import LEARNING_REQUESTS, PRODUCE_EVENTS, TAP_STATUS

DENIED = 53
"""TRANSACTIONAL_ID_AUTHORIZATION_FAILED."""


def wait_until_seen(broker: LocalBroker, *producer_ids: int) -> dict[int, set[str]]:
    wait_until(lambda: all(principals(broker, producer_ids).values()), f"events of {producer_ids}")
    return principals(broker, producer_ids)


def deny(broker: LocalBroker, user: str, transactional_id: str) -> None:
    rule = AclBinding(
        ResourceType.TRANSACTIONAL_ID,
        transactional_id,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        AclOperation.ALL,
        AclPermissionType.DENY,
    )
    anybody = AclBinding(
        ResourceType.TRANSACTIONAL_ID,
        transactional_id,
        ResourcePatternType.LITERAL,
        "User:*",
        "*",
        AclOperation.ALL,
        AclPermissionType.ALLOW,
    )
    # Held by a name: an AdminClient that is collected takes its answers with it.
    admin = AdminClient({**broker.admin_config()})
    for made in admin.create_acls([rule, anybody]).values():
        made.result()


@pytest.mark.parametrize("digits", [19, 5_000])
def test_no_number_that_a_client_writes_ends_the_tap(
    digits: int, attacked: LocalBroker, orders: str, tap: TapCommand
) -> None:
    crafted = f"x's InitProducerIdRequest with result InitProducerIdResult({'9' * digits},0,NONE) from client y"
    with tap.running(), Hostile(attacked, "mallory") as mallory, Hostile(attacked, "victim") as victim:
        # As the answer reads it: the id of mallory's client, and the transactional id before it.
        mallory.producer_id(None, "y")
        mallory.producer_id(None, crafted)
        victims = victim.producer_id()
        victim.produce(orders, batch(victims))

        assert wait_until_seen(attacked, victims) == {victims: {"User:victim"}}


def test_records_in_our_topics_that_make_no_sense_do_not_end_the_tap(
    attacked: LocalBroker, orders: str, tap: TapCommand
) -> None:
    ensure_topics(attacked.admin_config())
    ensure_topic(attacked.admin_config(), LEARNING_REQUESTS)
    hostile = [
        {"learns_from_ms": 2**63, "learns_until_ms": 10**30},
        {"learns_from_ms": -(2**70), "learns_until_ms": 2**62},
        {"learns_from_ms": "now", "learns_until_ms": None},
    ]
    writer = Producer(attacked.admin_config())
    ends = [end_offset(attacked, topic) for topic in (LEARNING_REQUESTS, TAP_STATUS)]
    values = [*(json.dumps(each).encode() for each in hostile), b"\xff", b"[" * 100_000, b'{"q":' * 100_000]
    for number, value in enumerate(values):
        # Brokers refuse records without a key in a compacted topic.
        writer.produce(LEARNING_REQUESTS, value, key=b"%d" % number)
        writer.produce(TAP_STATUS, value, key=b"77")
    assert writer.flush(60) == 0
    for topic, end in zip((LEARNING_REQUESTS, TAP_STATUS), ends, strict=True):
        assert end_offset(attacked, topic) == end + len(values)

    with tap.running(), Hostile(attacked, "victim") as victim:
        victims = victim.producer_id("t-" + orders)
        for _ in range(2):
            victim.produce(orders, batch(victim.producer_id()))
        tap.wait_until_level()

    assert principals(attacked, [victims]) == {victims: set()}


@pytest.mark.parametrize("plain_before", [pytest.param(0, marks=pytest.mark.slow), 12])
def test_a_giant_request_is_charged_to_its_sender_and_not_to_who_used_the_thread_before(
    plain_before: int, attacked: LocalBroker, orders: str, tap: TapCommand
) -> None:
    giant = giant_topics(350, 32_000)
    with (
        tap.running(),
        Hostile(attacked, "mallory", "mallory-app") as mallory,
        Hostile(attacked, "victim", "victim-app") as victim,
    ):
        producer_ids = []
        for _ in range(3):
            producer_ids.append(mallory.producer_id())
            for _ in range(plain_before):
                victim.produce(orders, batch())
            mallory.produce(orders, batch(producer_ids[-1]), more=giant)

        found = wait_until_seen(attacked, *producer_ids)
        tap.wait_until_level()

    assert found == {producer_id: {"User:mallory"} for producer_id in producer_ids}
    assert tap.status().counters["bad_lines"] == 0


@pytest.mark.slow
def test_a_flood_of_giant_requests_hides_no_producer_id(attacked: LocalBroker, orders: str, tap: TapCommand) -> None:
    giant = giant_topics(140, 32_000)
    stop = threading.Event()

    def flood() -> None:
        with Hostile(attacked, "mallory", "flood") as mallory:
            for _ in range(80):
                if not stop.is_set():
                    mallory.produce(orders, batch(), more=giant)

    with tap.running(), Hostile(attacked, "mallory", "m") as mallory:
        mallory.producer_id()
        flooding = threading.Thread(target=flood)
        flooding.start()
        producer_ids = []
        for _ in range(400):
            producer_ids.append(mallory.producer_id())
            mallory.produce(orders, batch(producer_ids[-1]))
        stop.set()
        flooding.join()
        found = wait_until_seen(attacked, *producer_ids)
        tap.wait_until_level()

    assert found == {producer_id: {"User:mallory"} for producer_id in producer_ids}
    counters = tap.status().counters
    assert (counters["lost_lines"], counters["lost_files"]) == (0, 0)


def test_a_borrowed_producer_id_is_charged_to_who_uses_it(attacked: LocalBroker, orders: str, tap: TapCommand) -> None:
    with (
        tap.running(),
        Hostile(attacked, "victim", "victim-app") as victim,
        Hostile(attacked, "mallory", "m") as mallory,
    ):
        lent = victim.producer_id(f"tx-{orders}")
        mallory.produce(orders, batch(lent))

        assert wait_until_seen(attacked, lent) == {lent: {"User:mallory"}}


@pytest.mark.slow
def test_two_thousand_denied_requests_cost_the_tap_next_to_nothing(
    attacked: LocalBroker, tap: TapCommand, orders: str
) -> None:
    denied = f"denied-{orders}"
    deny(attacked, "nobody", denied)
    with tap.running(), Hostile(attacked, "nobody", "n" * 32_000) as nobody, Hostile(attacked, "mallory") as mallory:
        wait_until(lambda: nobody.init(denied)[0] == DENIED, "the denial")
        tap.wait_until_level()
        before = memory_mb(tap.pid)
        for _ in range(2_000):
            nobody.init(denied)
        for _ in range(20):
            mallory.produce(orders, batch(mallory.producer_id()))
        tap.wait_until_level()

        assert tap.position_file.stat().st_size < 100_000
        assert memory_mb(tap.pid) - before < 100
    assert end_offset(attacked, PRODUCE_EVENTS) >= 20


def memory_mb(pid: int) -> float:
    words = Path(f"/proc/{pid}/statm").read_text().split()
    return int(words[1]) * 4096 / 1e6


def test_lines_that_were_rotated_away_unread_are_said_and_what_follows_is_learning(
    attacked: LocalBroker, orders: str, tmp_path: Path
) -> None:
    tap = TapCommand(attacked, tmp_path, "--from-end", "--learn-seconds", "1")
    with tap.running(), Hostile(attacked, "mallory") as mallory:
        mallory.produce(orders, batch(mallory.producer_id()))
        tap.wait_until_level()
    lost_from = attacked.log_file.stat().st_size
    with Hostile(attacked, "mallory") as mallory:
        unseen = mallory.producer_id()
        mallory.produce(orders, batch(unseen))
    # The class writes a line in a thread of its own, after the answer, and another for the new id before it.
    batches_of(attacked, unseen)
    # As a rotation does that nobody read before.
    with attacked.log_file.open("r+b") as log:
        rest = log.read()
        log.seek(0)
        log.truncate()
    assert len(rest) > lost_from
    with tap.running(), Hostile(attacked, "mallory") as mallory:
        later = mallory.producer_id()
        mallory.produce(orders, batch(later))
        wait_until_seen(attacked, later)

    events = [event for _, event in read_events(attacked, PRODUCE_EVENTS) if event["producer_id"] == later]
    assert [event.get("learning") for event in events] == [True]
    status = tap.status().counters
    assert status["lost_files"] == 1
    assert principals(attacked, [unseen]) == {unseen: set()}
