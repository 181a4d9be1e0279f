from pathlib import Path

import pytest

from tests.broker.other_kafka import OtherKafka
from tests.broker.test_hold_topics import DENIED, errors_of_writes
from tests.kits.broker_kit import new_topic, restart, transactional_producer, wait_for_report, wait_until
from tests.kits.client_kit import PythonProducers, send_by_confluent_kafka
from tests.kits.hold_kit import (
    LOADING,
    Asker,
    HoldWriter,
    Steady,
    end_s,
    in_force,
    is_at_end,
    now_ms,
)
from tests.kits.hostile_kit import Hostile
from wire.holds import HOLD_ANY_AUTHORIZER
from wire.plugin_reports import HoldReport
from wire.topics import OWN_TOPICS

HELD_BACK = "holds back new producer ids"
VERSIONS = ["3.7.2", "3.8.1", "3.9.1", "4.0.0", "4.1.1", "4.2.0"]

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("version", VERSIONS)
def test_new_producers_wait_and_nobody_else_does(jars: Path, tmp_path: Path, version: str) -> None:
    with OtherKafka(tmp_path / "kafka", version, jars, holds=True) as broker, HoldWriter(broker) as holds:
        broker.wait_for_plugin()
        topic = new_topic(broker, "orders")
        known, alice = (Steady(broker.client_config(name), topic, name) for name in ("mallory", "alice"))
        known.send(), alice.send()
        transactional_producer(broker.client_config("mallory"), "mallory-tx")
        waiting = PythonProducers(send_by_confluent_kafka, broker.client_config("mallory"), topic)
        report = holds.wait_for(holds.hold(10))
        waiting.start()
        known.send(), alice.send()
        transactional_producer(broker.client_config("mallory"), "mallory-tx")
        with Hostile(broker, "mallory") as client:
            assert client.init("new")[0] == LOADING
        assert all(is_at_end(end, end_s(report)) for end in waiting.ends())
        assert errors_of_writes(broker, "mallory") == dict.fromkeys(OWN_TOPICS, DENIED)

        holds.wait_for(holds.hold())
        restarted = now_ms()
        restart(broker)
        wait_for_report(broker, HoldReport, lambda each: each.timestamp_ms > restarted and bool(in_force(each)))
        with Asker(broker) as mallory, Asker(broker, "alice") as asker:
            # A broker that has just begun has no PIDs for anybody.
            wait_until(asker.gets_one, "alice gets one")
            assert mallory.error() == LOADING
            holds.remove()
            wait_until(lambda: mallory.error() == 0, "the hold is gone")
        assert HELD_BACK not in broker.server_log.read_text()
        assert "ERROR pid-quota" not in broker.server_log.read_text()


@pytest.mark.parametrize("version", ["3.7.2", "4.0.0"])
def test_a_cluster_without_authorizer_holds_by_the_other_class(jars: Path, tmp_path: Path, version: str) -> None:
    kafka = OtherKafka(tmp_path / "kafka", version, jars, authorizer_class_name=HOLD_ANY_AUTHORIZER)
    with kafka as broker, HoldWriter(broker) as holds:
        broker.wait_for_plugin()
        holds.hold()
        with Asker(broker) as mallory:
            wait_until(lambda: mallory.error() == LOADING, "she is held")
            holds.remove()
            wait_until(lambda: mallory.error() == 0, "she is free")
        assert errors_of_writes(broker, "mallory") == dict.fromkeys(OWN_TOPICS, DENIED)
