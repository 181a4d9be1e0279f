"""What the plugin remembers of a producer id, and for how long."""

import time
from pathlib import Path
from typing import Any

import pytest

from broker.local.local_broker import LocalBroker
from tests.kits.broker_kit import ensure_topics, events_of, read_events, wait_for_events, wait_for_report, wait_until
from tests.kits.hostile_kit import Hostile, batch
from tests.kits.plugin_kit import NO_PLUGIN, ready_topic, switch
from wire.plugin_reports import PluginState, StartReport

MADE_UP = 5_000_000_000


def test_events_that_waited_have_the_time_of_the_first_append_and_lost_ones_are_counted(
    jars: Path, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"pid_quota_memory_bytes": 65_536, "pid_quota_create_topics": "false"}
    with LocalBroker(tmp_path, jars=jars, **settings) as broker:
        topic, pids = ready_topic(broker, "orders"), range(MADE_UP, MADE_UP + 600)
        with Hostile(broker, "mallory") as mallory:
            mallory.produce(topic, batch(MADE_UP))
            first_ms = time.time() * 1000
            for pid in pids[1:]:
                mallory.produce(topic, batch(pid))
            time.sleep(2)
            mallory.produce(topic, batch(MADE_UP, sequence=1))
        ensure_topics(broker.admin_config())

        (event, *_) = events_of(broker, MADE_UP)
        lost = wait_for_report(broker, PluginState, lambda report: report.dropped_events > 0).dropped_events
        assert event.timestamp_ms <= first_ms
        wait_until(lambda: len({each.producer_id for each in read_events(broker)}) == len(pids) - lost, "the others")


@pytest.mark.slow
def test_a_pid_that_was_out_of_use_for_a_window_is_new(jars: Path, tmp_path: Path) -> None:
    with LocalBroker(tmp_path, jars=jars, pid_quota_repeat_ms=200, pid_quota_window_ms=1000) as broker:
        broker.wait_for_plugin()
        before, after = ready_topic(broker, "before"), ready_topic(broker, "after")
        with Hostile(broker, "alice") as alice:
            pid = alice.producer_id()
            alice.produce(before, batch(pid))
            time.sleep(2)
            alice.produce(after, batch(pid))
        events = wait_for_events(broker, lambda event: event.producer_id == pid, lambda events: len(events) == 2)
        assert [event.topic for event in events] == [before, after]


@pytest.mark.slow
def test_a_use_after_a_window_waits_for_no_repeat(jars: Path, tmp_path: Path) -> None:
    with LocalBroker(tmp_path, jars=jars, pid_quota_repeat_ms=3_600_000, pid_quota_window_ms=1000) as broker:
        broker.wait_for_plugin()
        topic = ready_topic(broker, "orders")
        with Hostile(broker, "alice") as alice:
            pid = alice.producer_id()
            alice.produce(topic, batch(pid))
            events_of(broker, pid)
            time.sleep(1.1)
            alice.produce(topic, batch(pid, sequence=1))
        wait_for_events(broker, lambda event: event.producer_id == pid, lambda events: len(events) == 2)


@pytest.mark.slow
def test_learning_ends_after_a_window_and_at_the_bound(jars: Path, tmp_path: Path) -> None:
    with LocalBroker(tmp_path, jars=jars, metric_reporters=NO_PLUGIN, pid_quota_window_ms=6000) as broker:
        topic = ready_topic(broker, "orders")
        with Hostile(broker, "alice") as alice:
            old = alice.producer_id()
            switch(broker, on=True)
            broker.wait_for_plugin()
            start = wait_for_report(broker, StartReport, lambda _: True)
            alice.produce(topic, batch(start.learns_below or 0))
            assert [each.learning for each in events_of(broker, start.learns_below or 0)] == [False]

            time.sleep(max(0, start.learns_until_ms / 1000 - time.time()) + 0.1)
            alice.produce(topic, batch(old))
            assert [each.learning for each in events_of(broker, old)] == [False]


@pytest.mark.slow
def test_events_keep_the_order_of_the_appends(jars: Path, tmp_path: Path) -> None:
    with LocalBroker(tmp_path, jars=jars) as broker:
        broker.wait_for_plugin()
        topic, pids = ready_topic(broker, "orders"), range(MADE_UP, MADE_UP + 200)
        with Hostile(broker, "mallory") as mallory:
            for pid in pids:
                mallory.send_produce(topic, batch(pid))
            for _ in pids:
                mallory.receive()
        assert [event.producer_id for event in events_of(broker, *pids)] == [*pids]


@pytest.mark.slow
def test_a_state_file_that_cannot_be_written_is_a_problem(jars: Path, tmp_path: Path) -> None:
    with LocalBroker(tmp_path, jars=jars) as broker:
        broker.wait_for_plugin()
        # given a folder where the plugin writes the new file
        (tmp_path / "data" / "pid-quota.state.tmp").mkdir()

        report = wait_for_report(broker, PluginState, lambda each: each.problem is not None)

        assert "pid-quota.state" in (report.problem or "")
        assert broker.server_log.read_text().count("ERROR pid-quota: can't write") == 1
