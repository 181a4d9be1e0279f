from pathlib import Path

import pytest

from tests.broker.other_kafka import OtherKafka
from tests.kits.broker_kit import new_topic, restart, transactional_producer, wait_until
from tests.kits.enforce_kit import Steady
from tests.kits.hold_kit import (
    LOADING,
    Asker,
    PythonProducers,
    bound,
    end_s,
    hold,
    is_at_end,
    send_by_confluent_kafka,
)

HELD_BACK = "holds back new producer ids"
VERSIONS = ["3.7.2", "3.8.1", "3.9.1", "4.0.0", "4.1.1", "4.2.0"]


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_new_producers_wait_and_nobody_else_does(jars: Path, tmp_path: Path, version: str) -> None:
    with OtherKafka(tmp_path / "kafka", version, jars, holds=True) as broker:
        topic = new_topic(broker, "orders")
        known, alice = (Steady(broker.client_config(name), topic, name) for name in ("mallory", "alice"))
        known.send(), alice.send()
        transactional_producer(broker.client_config("mallory"), "mallory-tx")
        waiting = PythonProducers(send_by_confluent_kafka, broker.client_config("mallory"), topic, 3)
        held = hold(10)
        with bound(broker, held):
            waiting.start()
            known.send(), alice.send()
            transactional_producer(broker.client_config("mallory"), "mallory-tx")
            assert all(is_at_end(end, end_s(held)) for end in waiting.ends())
        with bound(broker, hold(120)):
            restart(broker)
            with Asker(broker) as mallory, Asker(broker, "alice") as asker:
                # A broker that has just begun has no producer ids for anybody.
                wait_until(asker.gets_one, "alice gets one")
                assert mallory.error() == LOADING
        with Asker(broker) as mallory:
            wait_until(lambda: mallory.error() == 0, "the hold is gone")
        assert HELD_BACK not in broker.server_log.read_text()
