"""Helpers of the tests on the lines that the class in a real broker writes."""

import random
import uuid

from confluent_kafka import Producer
from kafka.admin import ConfigResource, ConfigResourceType

from broker.kafka.client import KafkaAdmin, RawAdmin
from broker.kafka.config import KafkaConfig
from broker.kafka.reporters import SETTING, switch_class
from broker.local.local_broker import LocalBroker
from tests.kits.broker_kit import LIMIT_S, end_offset, new_topic, wait_until
from tests.kits.hostile_kit import Hostile, batch
from wire.broker_lines import REPORTER_CLASS, BatchLine, BrokerLine, InitLine, decode_line

_INVENTED = 4_000_000_000


def lines_of(broker: LocalBroker) -> list[BrokerLine]:
    """All lines that the class wrote, the rotated files first."""
    files = sorted(
        broker.log_file.parent.glob(broker.log_file.name + ".[0-9]*"), key=lambda file: -int(file.suffix[1:])
    )
    return [decode_line(line) for file in [*files, broker.log_file] for line in file.read_bytes().splitlines()]


def batches_of(broker: LocalBroker, *producer_ids: int) -> list[BatchLine]:
    """The lines of these producer ids, when each has one."""

    def found() -> list[BatchLine]:
        return [line for line in lines_of(broker) if isinstance(line, BatchLine) and line.producer_id in producer_ids]

    wait_until(lambda: {line.producer_id for line in found()} == {*producer_ids}, f"lines of {len(producer_ids)} ids")
    return found()


def init_of(broker: LocalBroker, producer_id: int) -> InitLine:
    def found() -> list[InitLine]:
        every = [line for line in lines_of(broker) if isinstance(line, InitLine)]
        return [line for line in every if line.result_producer_id == producer_id]

    wait_until(lambda: bool(found()), f"the answer that handed out {producer_id}")
    return found()[0]


def ready_topic(broker: LocalBroker, name: str, partitions: int = 1) -> str:
    """A topic of which the broker takes batches by now: `Hostile` does not ask again."""
    topic = new_topic(broker, name, partitions)
    assert end_offset(broker, topic) == 0
    return topic


def frame(broker: LocalBroker, requests: int) -> list[int]:
    """Send requests of mallory, beside a busy alice without producer ids; return the ids that mallory made up.

    A request holds a transactional batch that fails its verification, and a plain one of an invented id.
    """
    alice = Producer({**broker.client_config("alice"), "enable.idempotence": False, "linger.ms": 0, "log_level": 3})
    alices, one, two = (ready_topic(broker, name) for name in ("alice", "one", "two"))
    invented = [_INVENTED + random.getrandbits(30) * 1000 + index for index in range(requests)]
    with Hostile(broker, "mallory", "framer") as mallory:
        transactional_id = f"tx-{uuid.uuid4().hex}"
        known = mallory.producer_id(transactional_id)
        for pid in invented:
            for _ in range(3):
                alice.produce(alices, b"value")
            alice.poll(0)
            mallory.produce_together(transactional_id, (one, two), (batch(known, transactional=True), batch(pid)))
    assert alice.flush(LIMIT_S) == 0
    assert end_offset(broker, two) == requests, "an invented id was refused"
    return invented


def set_logger(broker: LocalBroker, logger: str, level: str) -> None:
    admin = RawAdmin(bootstrap_servers=broker.admin_servers)
    resource = ConfigResource(ConfigResourceType.BROKER_LOGGER, str(broker.broker_id), {logger: ("set", level)})
    try:
        admin.alter_configs([resource], raise_on_unknown=False, incremental=True)
    finally:
        admin.close()


def switch(broker: LocalBroker, *, on: bool) -> None:
    """Load the class into the running broker, or take it out."""
    with KafkaAdmin(KafkaConfig.load(broker.admin_servers).kafka_python()) as admin:
        (change,) = switch_class(admin, on=on)
        assert (change.problem, change.is_changed) == (None, True)
        wait_until(
            lambda: (REPORTER_CLASS in admin.require_setting(broker.broker_id, SETTING)["value"]) == on,
            "the broker knows",
        )
        (again,) = switch_class(admin, on=on)
        assert (again.problem, again.is_changed) == (None, False)
