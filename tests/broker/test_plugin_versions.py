from pathlib import Path

import pytest
from confluent_kafka import Producer

from broker.local.local_broker import LocalBroker
from tests.broker.other_kafka import OtherKafka
from tests.kits.broker_kit import (
    LIMIT_S,
    events_of,
    new_topic,
    produce,
    read_events,
    reports_of,
    transactional_producer,
    wait_for_events,
    wait_for_report,
)
from tests.kits.hostile_kit import Hostile, batch
from tests.kits.plugin_kit import frame, init_of, switch
from wire.plugin_reports import AliveReport, PluginState, StartReport, StopReport

VERSIONS = ["3.7.2", "3.8.1", "3.9.1", "4.0.0", "4.1.1", "4.2.0", "4.3.1"]
"""Before you add a version, look in Kafka's source for what `CurrentRequest.java`, `Source.java`, `Appends.java`,
`RequestProducerIds.java` and `MetadataLog.java` use.
"""


def kafka(version: str, folder: Path, jars: Path) -> LocalBroker:
    return LocalBroker(folder, jars=jars) if version == VERSIONS[-1] else OtherKafka(folder, version, jars)


def produce_as_both(broker: LocalBroker, topic: str) -> None:
    """Eight producers of each user, half of them transactional, whose names begin with their user's."""
    for user in ("alice", "mallory"):
        config = {**broker.client_config(user), "enable.idempotence": True, "log_level": 0}
        producers = [Producer({**config, "client.id": f"{user}-{n}"}) for n in range(4)]
        transactional = [transactional_producer(broker.client_config(user), f"{user}-tx-{n}") for n in range(4)]
        for producer in transactional:
            producer.begin_transaction()
        for producer in (*producers, *transactional):
            producer.produce(topic, user.encode())
            assert producer.flush(LIMIT_S) == 0
        for producer in transactional:
            producer.commit_transaction(LIMIT_S)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_every_batch_is_its_owners_and_reporters_come_and_go(version: str, jars: Path, tmp_path: Path) -> None:
    with kafka(version, tmp_path, jars) as broker:
        broker.wait_for_plugin()
        topic = new_topic(broker, "orders")
        transactional_producer(broker.client_config("admin"), "first")
        produce_as_both(broker, topic)
        events = wait_for_events(
            broker,
            lambda event: event.topic == topic,
            lambda events: len({event.producer_id for event in events}) == 16,
        )
        for event in events:
            user = event.principal.removeprefix("User:")
            own = event.transactional_id or event.client_id or ""
            assert own.startswith(f"{user}-")
            asked = init_of(broker, event.producer_id)
            assert (asked.principal, asked.transactional_id) == (event.principal, event.transactional_id)

        invented = frame(broker, 50)
        assert {event.principal for event in events_of(broker, *invented)} == {"User:mallory"}

        switch(broker, on=False)
        last = wait_for_report(broker, StopReport, lambda report: not report.shutdown)
        before = len(read_events(broker))
        produce(broker.client_config("alice"), topic)
        assert [report.run for report in reports_of(broker, PluginState)][-1] == last.run
        switch(broker, on=True)
        wait_for_report(broker, StartReport, lambda report: report.run != last.run)
        assert len(read_events(broker)) == before
        with Hostile(broker, "mallory") as mallory:
            pid = mallory.producer_id()
            mallory.produce(topic, batch(pid))
        assert {event.principal for event in events_of(broker, pid)} == {"User:mallory"}
        assert init_of(broker, pid).principal == "User:mallory"
        found = wait_for_report(broker, AliveReport, lambda report: report.run != last.run and report.events > 0)
        assert (found.kafka_version, found.problem, found.errors, found.dropped_events) == (version, None, 0, 0)
        assert found.next_producer_id is not None
        assert found.next_producer_id > pid
        broker.stop()
        broker.start()
        wait_for_report(broker, StopReport, lambda report: report.run == found.run and report.shutdown)
