"""The plugin makes its topics, mends what Kafka made by itself, and says what it may not do."""

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, AdminClient, ConfigResource, ResourceType

from broker.kafka.topics import admin_client, existing_topics
from broker.local.local_broker import LocalBroker
from tests.kits.admin_kit import allow, alter, bind, delete_topic
from tests.kits.broker_kit import (
    ensure_topics,
    events_of,
    make_topic,
    new_topic,
    produce,
    read_events,
    wait_for_report,
    wait_until,
)
from tests.kits.hostile_kit import Hostile, batch
from tests.kits.login_kit import PREFIX, LoginBroker
from tests.kits.plugin_kit import NO_PLUGIN, switch
from wire.plugin_reports import AliveReport
from wire.topics import EVENT_PARTITIONS, HOLDS, OWN_TOPICS, PRODUCE_EVENTS, REPORTS, topic_settings

OURS = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "delete"}
UNKIND: dict[str, Any] = {"log_cleanup_policy": "compact", "num_partitions": 3, "auto_create_topics_enable": "true"}
COMMAND = re.compile(r"kafka-acls\.sh (.*)")


def settings_of(broker: LocalBroker, topic: str) -> dict[str, str]:
    admin = AdminClient({**broker.admin_config()})
    (answer,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return {name: entry.value for name, entry in answer.result().items() if name in OURS}


def logged(broker: LocalBroker) -> list[str]:
    """What the plugin has logged since the broker's first start, without its line at start."""
    lines = [line for line in broker.server_log.read_text().splitlines() if line.endswith("(pidquota.Reporter)")]
    return [line.split("] ", 1)[1].removesuffix(" (pidquota.Reporter)") for line in lines if " INFO " not in line]


def produced(broker: LocalBroker, topic: str) -> int:
    """A new PID of alice that was used on a topic."""
    before = {each.producer_id for each in read_events(broker)}
    produce(broker.client_config("alice"), topic)
    found: set[int] = set()

    def is_there() -> bool:
        found.update({each.producer_id for each in read_events(broker) if each.topic == topic} - before)
        return bool(found)

    wait_until(is_there, "an event")
    return found.pop()


def test_topics_have_our_settings_whatever_the_clusters_defaults_are(tmp_path: Path, jars: Path) -> None:
    with LocalBroker(tmp_path, jars=jars, **UNKIND) as broker:
        broker.wait_for_plugin()
        assert {topic: settings_of(broker, topic) for topic in OWN_TOPICS} == topic_settings()
        topics = existing_topics(admin_client(broker.admin_config()))
        assert {name: topics[name] for name in OWN_TOPICS} == {PRODUCE_EVENTS: EVENT_PARTITIONS, REPORTS: 1, HOLDS: 1}
        assert logged(broker) == []


@pytest.mark.slow
@pytest.mark.parametrize("creates_by_itself", ["true", "false"])
def test_a_deleted_topic_is_made_again_with_our_settings(tmp_path: Path, jars: Path, creates_by_itself: str) -> None:
    settings = UNKIND | {"auto_create_topics_enable": creates_by_itself}
    with LocalBroker(tmp_path, jars=jars, **settings) as broker:
        broker.wait_for_plugin()
        topic = new_topic(broker, "orders", cleanup_policy="delete")
        produced(broker, topic)

        delete_topic(broker, PRODUCE_EVENTS)
        with Hostile(broker, "alice") as alice:
            pid = alice.producer_id()
            alice.produce(topic, batch(pid))

        wait_until(lambda: existing_topics(admin_client(broker.admin_config())).get(PRODUCE_EVENTS) == 12, "it is back")
        wait_until(lambda: settings_of(broker, PRODUCE_EVENTS) == OURS, "our settings")
        assert events_of(broker, pid), "the event that found no topic"
        # Kafka never made it by itself, because the plugin asked for no metadata of a topic that is gone.
        assert "Sent auto-creation request for Set(produce-events)" not in broker.server_log.read_text()


@pytest.mark.slow
def test_a_topic_that_kafka_made_by_itself_gets_our_settings_and_partitions(tmp_path: Path, jars: Path) -> None:
    with LocalBroker(tmp_path, jars=jars, metric_reporters=NO_PLUGIN, **UNKIND) as broker:
        # given what a program makes that writes to the topic before the plugin is there
        made = Producer({**broker.admin_config(), "log_level": 0})
        made.produce(PRODUCE_EVENTS, key=b"User:x", value=b"no event")
        made.flush()
        assert settings_of(broker, PRODUCE_EVENTS)["cleanup.policy"] == "compact"

        switch(broker, on=True)

        wait_until(lambda: settings_of(broker, PRODUCE_EVENTS) == OURS, "our settings")
        wait_until(lambda: existing_topics(admin_client(broker.admin_config())).get(PRODUCE_EVENTS) == 12, "partitions")


@pytest.mark.slow
def test_every_wrong_setting_is_named_and_records_become_as_small_as_the_topic_wants(
    tmp_path: Path, jars: Path
) -> None:
    with LocalBroker(tmp_path, jars=jars) as broker:
        broker.wait_for_plugin()
        wrong = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
        alter(broker, {**wrong, "max.message.bytes": "900"}, PRODUCE_EVENTS)
        topic = new_topic(broker, "orders", 8)
        with Hostile(broker, "mallory", "x" * 200) as mallory:
            pids = [mallory.producer_id() for _ in range(40)]
            mallory.produce_to_partitions(topic, [batch(pid) for pid in pids[:8]])
            for begin in range(8, 40, 8):
                mallory.produce_to_partitions(topic, [batch(pid) for pid in pids[begin : begin + 8]])

            assert {each.producer_id for each in events_of(broker, *pids)} == {*pids}
        wait_until(lambda: any("cleanup.policy=compact" in line for line in logged(broker)), "both settings are named")
        assert any("message.timestamp.type=CreateTime" in line for line in logged(broker))


@pytest.mark.slow
def test_a_setting_that_somebody_chose_is_named_and_left_alone(tmp_path: Path, jars: Path) -> None:
    with LocalBroker(tmp_path, jars=jars) as broker:
        broker.wait_for_plugin()
        alter(broker, {"message.timestamp.type": "CreateTime"}, PRODUCE_EVENTS)

        wait_for_report(broker, AliveReport, lambda each: each.problem is not None)
        wait_until(lambda: len(logged(broker)) == 1, "a line")
        command = "--add-config message.timestamp.type=LogAppendTime"
        assert logged(broker)[0].startswith(
            "ERROR pid-quota: topic produce-events has message.timestamp.type=CreateTime"
        )
        assert logged(broker)[0].endswith(command)
        assert settings_of(broker, PRODUCE_EVENTS)["message.timestamp.type"] == "CreateTime"

        alter(broker, {"message.timestamp.type": "LogAppendTime"}, PRODUCE_EVENTS)
        wait_until(lambda: len(logged(broker)) == 2, "the end")
        assert logged(broker)[1].startswith("WARN pid-quota: the problem is over: topic produce-events has")


@pytest.mark.slow
def test_topics_that_the_plugin_may_not_make_are_awaited_and_no_event_is_lost(tmp_path: Path, jars: Path) -> None:
    with LocalBroker(tmp_path, jars=jars, pid_quota_create_topics="false") as broker:
        topic = new_topic(broker, "orders")
        produce(broker.client_config("alice"), topic)
        wait_until(lambda: len(logged(broker)) == 1, "a line")
        assert logged(broker)[0] == (
            "ERROR pid-quota: topic produce-events is missing, and pid.quota.create.topics is false: "
            "run `pid-quota topics create`"
        )

        ensure_topics(broker.admin_config())

        wait_until(lambda: len(read_events(broker)) >= 1, "the event from before")
        wait_until(lambda: len(logged(broker)) == 2, "the end of the problem")


@contextmanager
def without_rights(folder: Path, jars: Path) -> Iterator[LocalBroker]:
    """A broker whose own user may do nothing."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    login = f'{module} username="mallory" password="m" user_mallory="m";'
    properties: dict[str, Any] = {
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        f"{PREFIX}.sasl.enabled.mechanisms": "PLAIN",
        f"{PREFIX}.plain.sasl.jaas.config": login,
    }
    with LoginBroker(folder, jars, "SASL_PLAINTEXT", properties) as broker:
        yield broker


@pytest.mark.slow
def test_a_missing_right_is_one_line_with_the_command_that_grants_all(tmp_path: Path, jars: Path) -> None:
    with without_rights(tmp_path, jars) as broker:
        produce(broker.client_config("admin"), new_topic(broker, "orders"))
        wait_until(lambda: len(logged(broker)) == 1, "a line")
        (command,) = COMMAND.findall(logged(broker)[0])
        words = shlex.split(command)
        assert [words[at + 1] for at, word in enumerate(words) if word == "--topic"] == [
            PRODUCE_EVENTS,
            REPORTS,
            HOLDS,
        ]

        for topic in OWN_TOPICS:
            for operation in (words[at + 1] for at, word in enumerate(words) if word == "--operation"):
                name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).upper()
                principal = words[words.index("--allow-principal") + 1]
                bind(broker, allow(topic, principal, operation=AclOperation[name]))

        broker.wait_for_plugin()
        wait_until(lambda: len(read_events(broker)) >= 1, "the event from before")
        wait_until(lambda: len(logged(broker)) == 2, "the end of the problem")


@pytest.mark.slow
def test_a_young_cluster_with_too_few_brokers_starts_and_waits(tmp_path: Path, jars: Path) -> None:
    with LocalBroker(tmp_path, jars=jars, default_replication_factor=2) as broker:
        make_topic(broker, "orders")
        produce(broker.client_config("alice"), "orders")
        wait_until(lambda: len(logged(broker)) == 1, "a line")
        assert "too few brokers are up for the cluster's default.replication.factor" in logged(broker)[0]

        ensure_topics(broker.admin_config(), replication_factor=1)

        wait_until(lambda: len(read_events(broker)) >= 1, "the event from before")
