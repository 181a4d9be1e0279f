"""Clients that may only open a connection, against a real broker and its plugin.

What is promised: no wrong owner, ever; nothing unseen without being said; no client's text ends the plugin.
"""

import threading
import time

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from broker.local.local_broker import LocalBroker
from tests.kits.admin_kit import allow, bind, binding
from tests.kits.broker_kit import read_records, wait_for_report, wait_until
from tests.kits.hostile_kit import Hostile, batch, giant_topics, principals
from wire.plugin_reports import AliveReport
from wire.topics import REPORTS

DENIED = 53
"""TRANSACTIONAL_ID_AUTHORIZATION_FAILED."""


def newest_alive(broker: LocalBroker) -> AliveReport:
    """A report that the plugin writes after this call."""
    now_ms = round(1000 * time.time())
    return wait_for_report(broker, AliveReport, lambda report: report.timestamp_ms > now_ms)


def deny(broker: LocalBroker, user: str, transactional_id: str) -> None:
    kind, operation = ResourceType.TRANSACTIONAL_ID, AclOperation.ALL
    denied = binding(transactional_id, f"User:{user}", kind=kind, operation=operation)
    bind(broker, denied, allow(transactional_id, "User:*", kind, operation))


@pytest.mark.parametrize("digits", [19, 5_000])
def test_no_number_that_a_client_writes_ends_or_misleads_the_plugin(
    digits: int, attacked: LocalBroker, orders: str
) -> None:
    crafted = f"x's InitProducerIdRequest with result InitProducerIdResult({'9' * digits},0,NONE) from client y"
    with Hostile(attacked, "mallory") as mallory, Hostile(attacked, "victim") as victim:
        # As the answer reads it: the id of mallory's client, and the transactional id before it.
        mallory.producer_id(None, "y")
        mallory.producer_id(None, crafted)
        victims = victim.producer_id()
        victim.produce(orders, batch(victims))

        assert principals(attacked, [victims]) == {victims: {"User:victim"}}


@pytest.mark.parametrize("plain_before", [pytest.param(0, marks=pytest.mark.slow), 12])
def test_a_giant_request_is_charged_to_its_sender_and_not_to_who_used_the_thread_before(
    plain_before: int, attacked: LocalBroker, orders: str
) -> None:
    giant = giant_topics(350, 32_000)
    with (
        Hostile(attacked, "mallory", "mallory-app") as mallory,
        Hostile(attacked, "victim", "victim-app") as victim,
    ):
        producer_ids = []
        for _ in range(3):
            producer_ids.append(mallory.producer_id())
            for _ in range(plain_before):
                victim.produce(orders, batch())
            mallory.produce(orders, batch(producer_ids[-1]), more=giant)

        found = principals(attacked, producer_ids)

    assert found == {producer_id: {"User:mallory"} for producer_id in producer_ids}
    assert newest_alive(attacked).errors == 0


@pytest.mark.slow
def test_a_flood_of_giant_requests_hides_no_producer_id(attacked: LocalBroker, orders: str) -> None:
    giant = giant_topics(140, 32_000)
    stop = threading.Event()

    def flood() -> None:
        with Hostile(attacked, "mallory", "flood") as mallory:
            for _ in range(80):
                if not stop.is_set():
                    mallory.produce(orders, batch(), more=giant)

    with Hostile(attacked, "mallory", "m") as mallory:
        mallory.producer_id()
        flooding = threading.Thread(target=flood)
        flooding.start()
        producer_ids = []
        for _ in range(400):
            producer_ids.append(mallory.producer_id())
            mallory.produce(orders, batch(producer_ids[-1]))
        stop.set()
        flooding.join()
        found = principals(attacked, producer_ids)

    assert found == {producer_id: {"User:mallory"} for producer_id in producer_ids}
    alive = newest_alive(attacked)
    assert (alive.dropped_events, alive.errors, alive.waiting_pids) == (0, 0, 0)


@pytest.mark.slow
def test_two_thousand_denied_requests_hide_nothing_and_make_no_large_reports(
    attacked: LocalBroker, orders: str
) -> None:
    denied = f"denied-{orders}"
    deny(attacked, "nobody", denied)
    before = len(read_records(attacked, REPORTS))
    with Hostile(attacked, "nobody", "n" * 32_000) as nobody, Hostile(attacked, "mallory") as mallory:
        wait_until(lambda: nobody.init(denied)[0] == DENIED, "the denial")
        for _ in range(2_000):
            nobody.init(denied)
        producer_ids = [mallory.producer_id() for _ in range(20)]
        for producer_id in producer_ids:
            mallory.produce(orders, batch(producer_id))

        assert set().union(*principals(attacked, producer_ids).values()) == {"User:mallory"}
    assert newest_alive(attacked).errors == 0
    reports = [value for _, value in read_records(attacked, REPORTS)[before:]]
    assert max(map(len, reports)) < 5_000
    assert len(reports) < 2_200
