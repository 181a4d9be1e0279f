"""Makes reports, and requests whose events and reports are to be checked."""

import random
import uuid
from importlib import metadata
from typing import Any

from confluent_kafka import Producer
from kafka.admin import ConfigResource, ConfigResourceType

from broker.kafka.client import KafkaAdmin, RawAdmin
from broker.kafka.config import KafkaConfig
from broker.kafka.reporters import SETTING, switch_plugin
from broker.local.local_broker import LocalBroker
from tests.kits.broker_kit import LIMIT_S, end_offset, new_topic, wait_for_report, wait_until
from tests.kits.hostile_kit import Hostile, batch
from wire.plugin_reports import REPORTER_CLASS, AliveReport, InitReport, StartReport, StopReport

NOON_MS = 1_790_000_000_000
CLUSTER_ID = "a cluster"
NO_PLUGIN = "org.apache.kafka.common.metrics.JmxReporter"
"""Value of `metric.reporters` of a broker without the plugin."""

_INVENTED = 4_000_000_000


def state_report(
    kind: type[StartReport | AliveReport | StopReport] = AliveReport, broker_id: int = 1, **fields: Any
) -> StartReport | AliveReport | StopReport:
    """A report of a plugin's state, with defaults."""
    usual: dict[str, Any] = {
        "timestamp_ms": NOON_MS,
        "cluster_id": CLUSTER_ID,
        "run": "0123456789abcdef",
        "plugin_version": metadata.version("pid-quota"),
        "kafka_version": "4.3.1",
        "repeat_ms": 30_000,
        "window_ms": 3_600_000,
    }
    return kind(broker_id=broker_id, **(usual | fields))


def init_of(broker: LocalBroker, producer_id: int) -> InitReport:
    """The report of the answer that handed out a PID."""
    return wait_for_report(broker, InitReport, lambda report: report.result_producer_id == producer_id)


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
    """Load the plugin into the running broker, or take it out."""
    with KafkaAdmin(KafkaConfig.load(broker.admin_servers)) as admin:
        (change,) = switch_plugin(admin, on=on)
        assert (change.problem, change.is_changed) == (None, True)
        wait_until(
            lambda: (REPORTER_CLASS in admin.require_setting(broker.broker_id, SETTING)["value"]) == on,
            "the broker knows",
        )
        (again,) = switch_plugin(admin, on=on)
        assert (again.problem, again.is_changed) == (None, False)
