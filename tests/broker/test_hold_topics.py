"""Who may use the plugin's topics: its authorizer decides, without ACLs."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType
from confluent_kafka.cimpl import NewTopic

from broker.enforcement import by_hand
from broker.kafka.topics import admin_client, create_topics
from broker.local.local_broker import LocalBroker
from tests.broker.test_plugin_topics import logged
from tests.kits.admin_kit import allow, bound
from tests.kits.broker_kit import ensure_topics, events_of, new_topic, wait_for_report, wait_until
from tests.kits.hold_kit import LOADING, Asker, HoldWriter
from tests.kits.hostile_kit import Hostile, batch
from tests.kits.login_kit import PREFIX, LoginBroker
from wire.holds import EVERYBODY, HOLD_AUTHORIZER
from wire.plugin_reports import AliveReport
from wire.topics import HOLDS, OWN_TOPICS, PRODUCE_EVENTS, REPORTS, topic_settings

DENIED = "TOPIC_AUTHORIZATION_FAILED"
CLUSTER = "kafka-cluster"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def errors_of_writes(broker: LocalBroker, user: str) -> dict[str, str | None]:
    """The error of a write to each topic of the plugin, and to another one."""
    producer = Producer({**broker.client_config(user), "enable.idempotence": False, "log_level": 0})
    found: dict[str, str | None] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        found[str(message.topic())] = error.name() if error else None

    for topic in OWN_TOPICS:
        producer.produce(topic, b"garbage", b"User:x", on_delivery=delivered)
    assert producer.flush(30) == 0
    return found


def may_read(broker: LocalBroker, user: str, topic: str) -> bool:
    consumer = Consumer({**broker.client_config(user), "group.id": "readers", "log_level": 0})
    try:
        return (
            topic in consumer.list_topics(topic, 30).topics and not consumer.list_topics(topic, 30).topics[topic].error
        )
    except KafkaException:
        return False
    finally:
        consumer.close()


def test_brokers_super_users_and_writers_write_and_nobody_else_does(held_broker: LocalBroker) -> None:
    """Although `allow.everyone.if.no.acl.found` is true."""
    assert errors_of_writes(held_broker, "mallory") == dict.fromkeys(OWN_TOPICS, DENIED)
    assert errors_of_writes(held_broker, "admin") == dict.fromkeys(OWN_TOPICS)
    assert errors_of_writes(held_broker, "alice") == {PRODUCE_EVENTS: DENIED, REPORTS: DENIED, HOLDS: None}


def test_a_right_that_everybody_has_makes_nobody_a_broker(held_broker: LocalBroker) -> None:
    """Without ACLs, everybody may do what followers of partitions do."""
    with bound(held_broker, allow(PRODUCE_EVENTS, "User:mallory", ResourceType.TOPIC, AclOperation.WRITE)):
        assert errors_of_writes(held_broker, "mallory")[PRODUCE_EVENTS] == DENIED
        assert may_read(held_broker, "mallory", REPORTS)


@contextmanager
def strict_broker(folder: Path, jars: Path) -> Iterator[LocalBroker]:
    """A broker whose own user, mallory, is no super user, and whose users need a right for everything."""
    login = f'{PLAIN} username="mallory" password="m" user_mallory="m";'
    properties: dict[str, object] = {
        "authorizer.class.name": HOLD_AUTHORIZER,
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "pid.quota.writers": "User:alice",
        f"{PREFIX}.sasl.enabled.mechanisms": "PLAIN",
        f"{PREFIX}.plain.sasl.jaas.config": login,
    }
    with LoginBroker(folder, jars, "SASL_PLAINTEXT", properties) as broker:
        yield broker


def test_with_acls_only_the_brokers_own_user_needs_none(tmp_path: Path, jars: Path) -> None:
    with strict_broker(tmp_path, jars) as broker:
        # The plugin makes its topics, writes and follows without any ACL.
        broker.wait_for_plugin()
        topic = new_topic(broker, "orders")
        with Hostile(broker, "admin") as client:
            pid = client.producer_id()
            client.produce(topic, batch(pid))
        assert events_of(broker, pid)

        # alice, a writer, may read and hold, and nothing else
        assert errors_of_writes(broker, "alice") == {PRODUCE_EVENTS: DENIED, REPORTS: DENIED, HOLDS: None}
        assert all(may_read(broker, "alice", each) for each in OWN_TOPICS)
        assert by_hand.hold(broker.client_config("alice"), "User:x", 60_000, "alice").held == ["User:x"]
        assert by_hand.release(broker.client_config("alice"), "User:x", 60_000, "alice").held == []

        # whoever may do what followers of partitions do is a broker
        cluster_action = allow(CLUSTER, "User:alice", ResourceType.BROKER, AclOperation.CLUSTER_ACTION)
        with bound(broker, cluster_action):
            assert errors_of_writes(broker, "alice") == dict.fromkeys(OWN_TOPICS)
            assert may_read(broker, "alice", REPORTS)
        assert errors_of_writes(broker, "alice")[REPORTS] == DENIED

        lines = [line for line in broker.server_log.read_text().splitlines() if "(pidquota." in line]
        assert all("INFO" in line for line in lines), lines


def test_a_plugin_of_another_broker_that_is_unknown_says_how_to_make_it_known(tmp_path: Path, jars: Path) -> None:
    own: dict[str, Any] = {"pid_quota_producer_security_protocol": "SASL_PLAINTEXT"}
    with LocalBroker(tmp_path / "one", jars=jars, holds=True, allow_everyone_if_no_acl_found="true") as one:
        one.wait_for_plugin()
        login = f'{PLAIN} username="mallory" password="mallory-secret";'
        own |= {
            "pid_quota_producer_bootstrap_servers": one.bootstrap_servers,
            "pid_quota_producer_sasl_mechanism": "PLAIN",
            "pid_quota_producer_sasl_jaas_config": login,
        }
        with LocalBroker(tmp_path / "two", jars=jars, holds=True, **own) as two:
            new_topic(two, "orders")
            wait_until(lambda: len(logged(two)) > 0, "a line")
            assert "may not write to topic pid-quota-reports: add 'User:mallory' to super.users" in logged(two)[0]
            # It follows the holds of the cluster to which its events go.
            with HoldWriter(one) as holds, Asker(two) as mallory:
                holds.hold()
                wait_until(lambda: mallory.error() == LOADING, "she is held")
                holds.remove()
                wait_until(lambda: mallory.error() == 0, "she is free")


def test_a_wrong_setting_is_one_line_that_names_the_value_in_force(tmp_path: Path, jars: Path) -> None:
    wrong: dict[str, Any] = {
        "pid_quota_max_holds": "many",
        "pid_quota_writers": "alice;User:bob",
        "pid_quota_never": ":",
        "pid_quota_repeat_ms": "often",
        "pid_quota_partitions": "0",
        "pid_quota_create_topics": "yes",
    }
    with LocalBroker(tmp_path, jars=jars, holds=True, **wrong) as broker:
        broker.wait_for_plugin()
        lines = [
            line.split("] ", 1)[1] for line in broker.server_log.read_text().splitlines() if "ERROR pid-quota" in line
        ]
        assert [re.sub(r"^ERROR pid-quota: | \(pidquota\.\w+\)$", "", line) for line in sorted(lines)] == [
            "pid.quota.create.topics=yes is neither true nor false: using true",
            "pid.quota.max.holds=many is not a whole number from 0 to 1000: using 50",
            "pid.quota.never: : is not a principal such as User:alice: ignoring it",
            "pid.quota.partitions=0 is not a whole number from 1 to 2147483647: using 12",
            "pid.quota.repeat.ms=often is not a whole number from 100 to 2147483647: using 30000",
            "pid.quota.writers: alice is not a principal such as User:alice: ignoring it",
        ]


def test_the_authorizer_alone_holds_too_and_starts_without_a_stack_trace(tmp_path: Path, jars: Path) -> None:
    """Without the Reporter, nobody makes the topic or reports."""
    with LocalBroker(tmp_path, jars=jars, holds=True, metric_reporters="") as broker:
        ensure_topics(broker.admin_config())
        with Asker(broker) as mallory:
            wait_until(lambda: mallory.error() == 0, "she gets a PID")
            held_offset = HoldWriter(broker).hold()
            wait_until(lambda: mallory.error() == LOADING, "she is held")
        assert held_offset == 0
        assert "\tat " not in broker.server_log.read_text().split("holds back new producer ids")[0]


def test_of_a_topic_with_several_partitions_only_the_first_counts_and_the_plugin_says_so(
    tmp_path: Path, jars: Path
) -> None:
    # given a topic that Kafka made for somebody's request, with the cluster's number of partitions
    with LocalBroker(tmp_path, jars=jars, holds=True, pid_quota_create_topics="false") as broker:
        several = NewTopic(HOLDS, 3, 1, config=topic_settings()[HOLDS])
        create_topics(admin_client(broker.admin_config()), [several])
        ensure_topics(broker.admin_config())

        # then the plugin reports it, and holds and releases are obeyed, whatever partition their keys would have
        problem = wait_for_report(broker, AliveReport, lambda each: "3 partitions" in (each.problem or "")).problem
        assert problem
        assert "only partition 0 counts" in problem
        names = [f"User:u{number}" for number in range(4)]
        for name in names:
            assert name in by_hand.hold(broker.admin_config(), name, 600_000, "a test").held
        assert by_hand.release(broker.admin_config(), EVERYBODY, 60_000, "a test").held == []

        # and what the clients of a starting broker log stays out of its log
        lines = broker.server_log.read_text().splitlines()
        assert not [line for line in lines if "clientId=pid-quota-plugin" in line]


def test_a_writer_gets_no_other_right_and_each_topic_its_own_answer(tmp_path: Path, jars: Path) -> None:
    with strict_broker(tmp_path, jars) as broker:
        broker.wait_for_plugin()
        mine = {new_topic(broker, f"mine-{number}") for number in range(6)}
        for number in range(6):
            new_topic(broker, f"other-{number}")
        alice = AdminClient({**broker.client_config("alice"), "log_level": 0})
        with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
            alice.delete_topics([HOLDS])[HOLDS].result()
        rights = [allow(name, "User:alice", ResourceType.TOPIC, AclOperation.DESCRIBE) for name in mine]
        with bound(broker, *rights):
            assert set(alice.list_topics(timeout=30).topics) == {*mine, *OWN_TOPICS}
