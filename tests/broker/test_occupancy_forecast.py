"""Compares the forecast for a real broker in a flood with the entries that it holds later."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from broker.local.local_broker import LocalBroker
from lifecycle.forecast import Outlook
from lifecycle.occupancy_rate import Rates, rates_of
from tests.kits.broker_kit import new_topic
from tests.kits.occupancy_kit import census_of

LIVING = 15


@contextmanager
def flooded(jars: Path, folder: Path, expiration_ms: int) -> Iterator[LocalBroker]:
    with LocalBroker(
        folder,
        jars=jars,
        producer_id_expiration_ms=expiration_ms,
        producer_id_expiration_check_interval_ms=1000,
    ) as broker:
        broker.wait_for_plugin()
        topic, stop = new_topic(broker, "orders", partitions=3), threading.Event()
        clients = [threading.Thread(target=client, args=(broker, topic, stop)) for client in (living, flood)]
        for each in clients:
            each.start()
        yield broker
        stop.set()
        for each in clients:
            each.join()


def producer(broker: LocalBroker, user: str) -> Producer:
    return Producer({**broker.client_config(user), "enable.idempotence": True, "log_level": 0})


def living(broker: LocalBroker, topic: str, stop: threading.Event) -> None:
    kept = [producer(broker, "alice") for _ in range(LIVING)]
    while not stop.wait(1.0):
        for each in kept:
            for partition in range(3):
                each.produce(topic, b"value", partition=partition)
            each.poll(0)


def flood(broker: LocalBroker, topic: str, stop: threading.Event) -> None:
    began = time.monotonic()
    number = 0
    while not stop.wait(max(0.0, began + number - time.monotonic())):
        one = producer(broker, "mallory")
        one.produce(topic, b"value", partition=number % 3)
        one.flush(20)
        number += 1


def foretold(broker: LocalBroker, after_s: float) -> tuple[Rates, Outlook, float]:
    """What is foretold when a flood has run for a while, and when that was."""
    time.sleep(after_s)
    census = census_of(broker.admin_servers).census
    rates = rates_of(census, 1)
    return rates, Outlook(census, 1, rates.likeliest_first[0]), time.monotonic()


@pytest.mark.slow
def test_a_flood_of_two_minutes_tells_what_is_held_two_minutes_later(jars: Path, tmp_path: Path) -> None:
    with flooded(jars, tmp_path, expiration_ms=86_400_000) as broker:
        rates, outlook, at = foretold(broker, 120)
        time.sleep(120)
        passed_ms = (time.monotonic() - at) * 1000
        held = census_of(broker.admin_servers).census.held(1)

    assert outlook.held_in(passed_ms) == pytest.approx(held, rel=0.15)
    # By today's rate alone it is not.
    assert rates.today.pids_per_hour < 0.1 * rates.likeliest_first[0].pids_per_hour
    print(f"foretold {outlook.held_in(passed_ms)}, held {held}; today's rate {rates.today}, lately {rates.lately}")


@pytest.mark.slow
def test_with_an_expiration_of_a_minute_a_flood_settles_where_it_was_foretold(jars: Path, tmp_path: Path) -> None:
    with flooded(jars, tmp_path, expiration_ms=60_000) as broker:
        rates, outlook, _ = foretold(broker, 90)
        found = []
        for _ in range(6):
            time.sleep(10)
            found.append(census_of(broker.admin_servers).census.held(1))

    assert [outlook.settles_at] * len(found) == pytest.approx(found, rel=0.05)
    print(f"foretold {outlook.settles_at}, held {found}; {rates}")
