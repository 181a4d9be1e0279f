from pathlib import Path

import pytest
from confluent_kafka import Producer

from broker.local.local_broker import LocalBroker
from tests.broker.other_kafka import OtherKafka
from tests.kits.broker_kit import LIMIT_S, new_topic, produce, transactional_producer, wait_until
from tests.kits.class_kit import batches_of, frame, init_of, lines_of, switch
from tests.kits.hostile_kit import Hostile, batch
from wire.broker_lines import AliveLine, BatchLine, ClassState, StartLine, StopLine

VERSIONS = ["3.7.2", "3.8.1", "3.9.1", "4.0.0", "4.1.1", "4.2.0", "4.3.1"]


def kafka(version: str, folder: Path, jars: Path) -> LocalBroker:
    return LocalBroker(folder, jars=jars) if version == VERSIONS[-1] else OtherKafka(folder, version, jars)


def states(broker: LocalBroker) -> list[ClassState]:
    return [line for line in lines_of(broker) if isinstance(line, ClassState)]


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_every_batch_is_its_owners_and_reporters_come_and_go(version: str, jars: Path, tmp_path: Path) -> None:
    with kafka(version, tmp_path, jars) as broker:
        topic = new_topic(broker, "orders")
        transactional_producer(broker.client_config("admin"), "first")
        both: dict[str, list[Producer]] = {"alice": [], "mallory": []}
        for user, producers in both.items():
            producers += [
                Producer(
                    {
                        **broker.client_config(user),
                        "enable.idempotence": True,
                        "log_level": 0,
                        "client.id": f"{user}-{n}",
                    }
                )
                for n in range(4)
            ]
            producers += [transactional_producer(broker.client_config(user), f"{user}-tx-{n}") for n in range(4)]
        for user, producers in both.items():
            for producer in producers[4:]:
                producer.begin_transaction()
            for producer in producers:
                producer.produce(topic, user.encode())
            for producer in producers:
                assert producer.flush(LIMIT_S) == 0
            for producer in producers[4:]:
                producer.commit_transaction(LIMIT_S)

        def of_topic() -> list[BatchLine]:
            return [line for line in lines_of(broker) if isinstance(line, BatchLine) and line.topic == topic]

        wait_until(lambda: len({line.producer_id for line in of_topic()}) == 16, "16 producer ids")
        for line in of_topic():
            user = line.principal.removeprefix("User:")
            own = line.transactional_id or line.client_id or ""
            assert own.startswith(f"{user}-")
            asked = init_of(broker, line.producer_id)
            assert (asked.principal, asked.transactional_id) == (line.principal, line.transactional_id)

        invented = frame(broker, 50)
        assert {line.principal for line in batches_of(broker, *invented)} == {"User:mallory"}

        switch(broker, on=False)
        wait_until(lambda: isinstance(lines_of(broker)[-1], StopLine), "the class is out")
        last = lines_of(broker)[-1]
        assert isinstance(last, StopLine)
        assert not last.shutdown
        produce(broker.client_config("alice"), topic)
        assert lines_of(broker)[-1] == last
        switch(broker, on=True)
        wait_until(lambda: isinstance(lines_of(broker)[-1], StartLine), "the class is in again")
        with Hostile(broker, "mallory") as mallory:
            pid = mallory.producer_id()
            mallory.produce(topic, batch(pid))
        assert {line.principal for line in batches_of(broker, pid)} == {"User:mallory"}
        assert init_of(broker, pid).principal == "User:mallory"
        wait_until(lambda: isinstance(states(broker)[-1], AliveLine), "the class is alive")
        found = states(broker)[-1]
        assert (found.kafka_version, found.problem, found.errors, found.dropped_lines) == (version, None, 0, 0)
    last = lines_of(broker)[-1]
    assert isinstance(last, StopLine)
    assert last.shutdown
