"""How often the plugin in a real broker writes a PID that is in use."""

import itertools
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.local.local_broker import LocalBroker
from tests.kits.broker_kit import events_of, read_events, wait_for_events
from tests.kits.hostile_kit import Hostile, batch
from tests.kits.plugin_kit import ready_topic

REPEAT_MS = 500


@pytest.fixture(scope="module")
def repeating(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """A broker whose plugin has a short repeat interval."""
    with LocalBroker(tmp_path_factory.mktemp("repeating"), jars=jars, pid_quota_repeat_ms=REPEAT_MS) as running:
        running.wait_for_plugin()
        yield running


def test_repeats_within_an_interval_are_written_once(broker: LocalBroker) -> None:
    topic, client = ready_topic(broker, "orders"), f"app-{uuid.uuid4().hex}"
    begin_s = time.monotonic()
    with Hostile(broker, "alice", client) as alice:
        pid, end = alice.producer_id(), alice.producer_id()
        for sequence in range(300):
            alice.produce(topic, batch(pid, sequence=sequence))
        alice.produce(topic, batch(end))

    events = events_of(broker, pid, end)
    # One for the new PID, and one per interval of 30 s, which may end at any moment.
    assert len([event for event in events if event.producer_id == pid]) <= 2 + (time.monotonic() - begin_s) / 30


def test_an_id_in_constant_use_is_written_once_in_each_interval(repeating: LocalBroker) -> None:
    topic = ready_topic(repeating, "orders")
    with Hostile(repeating, "alice") as alice:
        pid, end = alice.producer_id(), alice.producer_id()
        end_s = time.monotonic() + 10 * REPEAT_MS / 1000
        for sequence in itertools.count():
            alice.produce(topic, batch(pid, sequence=sequence))
            if time.monotonic() > end_s:
                break
        alice.produce(topic, batch(end))

    events = events_of(repeating, pid, end)
    times = sorted(event.timestamp_ms for event in events if event.producer_id == pid)
    (end_ms,) = (event.timestamp_ms for event in events if event.producer_id == end)
    # One for the new PID, one per moment between the first and the last use, and one for the last use.
    assert len(times) <= 3 + (end_ms - times[0]) / REPEAT_MS
    # The plugin's thread may get to run late.
    gaps = [after - before for before, after in itertools.pairwise([*times, end_ms])]
    assert max(gaps) <= 4 * REPEAT_MS, gaps


def test_an_id_that_is_used_again_is_written_again_and_one_out_of_use_is_not(repeating: LocalBroker) -> None:
    topic = ready_topic(repeating, "orders", 2)
    with Hostile(repeating, "alice") as alice:
        once, pid = alice.producer_id(), alice.producer_id()
        alice.produce(topic, batch(once))
        alice.produce(topic, batch(pid), partition=1)
        time.sleep(2 * REPEAT_MS / 1000)
        alice.produce(topic, batch(pid, sequence=1), partition=1)
        used_ms = time.time() * 1000

    events = wait_for_events(
        repeating,
        lambda event: event.producer_id in (once, pid),
        lambda events: [event.producer_id for event in events].count(pid) == 2,
    )
    first, second = (event.timestamp_ms for event in events if event.producer_id == pid)
    # The repeat has the time of the last use.
    assert second - first >= 2 * REPEAT_MS - 1
    assert second <= used_ms
    assert [event.producer_id for event in read_events(repeating)].count(once) == 1
