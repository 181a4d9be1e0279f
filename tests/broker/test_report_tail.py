"""The newest states of plugins, read from a real topic of reports."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import Producer

from broker.errors import TopicMissingError
from broker.kafka import report_tail
from broker.kafka.report_tail import newest_states
from broker.kafka.topics import admin_client
from broker.local.local_broker import LocalBroker
from tests.kits.broker_kit import LIMIT_S, reports_of, wait_for_report
from tests.kits.plugin_kit import NO_PLUGIN, state_report
from wire.plugin_reports import AliveReport, InitReport, PluginState, StartReport
from wire.topics import REPORTS


@pytest.fixture(scope="module")
def own(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """A broker of our own: its reports are mixed with others."""
    with LocalBroker(tmp_path_factory.mktemp("reports"), jars=jars) as running:
        running.wait_for_plugin()
        yield running


def write(broker: LocalBroker, *values: bytes | None) -> None:
    producer = Producer({**broker.admin_config(), "linger.ms": 5})
    for value in values:
        producer.produce(REPORTS, value, b"1")
        producer.poll(0)
    assert producer.flush(LIMIT_S) == 0


def test_the_newest_state_has_the_time_of_a_broker(own: LocalBroker) -> None:
    wait_for_report(own, AliveReport, lambda _: True)

    found = newest_states(own.admin_config())

    assert found.keys() == {own.broker_id}
    newest = found[own.broker_id]
    assert newest.state in reports_of(own, PluginState)[-2:]
    assert abs(newest.appended_ms - newest.state.timestamp_ms) < 5_000


def test_records_of_others_and_a_flood_of_answers_hide_nothing(
    own: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster_id = admin_client(own.admin_config()).metadata().cluster_id or ""
    foreign = state_report(broker_id=own.broker_id, run="theirs", cluster_id="another cluster")
    answer = InitReport(
        round(1000 * time.time()), own.broker_id, cluster_id, principal="User:mallory", address="10.0.0.7", error="NONE"
    )
    write(own, None, b"rubbish", b"\xff", b"[" * 100_000, msgspec.json.encode(foreign))
    write(own, *[msgspec.json.encode(answer)] * 3_000)
    monkeypatch.setattr(report_tail, "_PORTION", 500)

    found = newest_states(own.admin_config())

    assert found.keys() == {own.broker_id}
    assert found[own.broker_id].state.run in {each.run for each in reports_of(own, StartReport)}


def test_a_cluster_without_the_topic_is_told_so(jars: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"metric_reporters": NO_PLUGIN, "auto_create_topics_enable": "false"}
    with LocalBroker(tmp_path, jars=jars, **settings) as broker, pytest.raises(TopicMissingError, match="plugin"):
        newest_states(broker.admin_config())
