"""What `pid-quota uninstall` removes, and what it leaves to the operator."""

from typing import Any
from unittest.mock import Mock

import pytest

from broker.doctor.removal import by_hand_steps, hold_steps, topic_steps
from broker.enforcement.model import Change
from broker.errors import RemovalError
from broker.kafka.topic_setup import TopicOutcome, TopicSetup
from tests.kits.hold_topic_kit import CLUSTER, MemoryTopic
from wire.holds import Hold
from wire.topics import HOLDS, PRODUCE_EVENTS, REPORTS

NOON_MS = 1_800_000_000_000
HOLD_MS = 600_000


def held(*, epoch: int | None = None, writer: str = "carol@host") -> Hold:
    until_ms = NOON_MS + HOLD_MS
    return Hold(cluster_id=CLUSTER, hold_ms=HOLD_MS, until_ms=until_ms, writer=writer, writer_epoch=epoch)


def topic_with(**holds: Hold) -> MemoryTopic:
    """The topic at noon, a moment after these users were held."""
    topic = MemoryTopic(NOON_MS)
    topic.alive()
    topic.poll()
    topic.write([Change(f"User:{user}", hold) for user, hold in holds.items()])
    return topic


def steps(topic: MemoryTopic, now_ms: int) -> list[str]:
    """Carry all steps out."""
    of_kafka: Any = topic
    done = []
    for step in [*hold_steps(of_kafka, now_ms)]:
        step.run()
        done.append(step.what)
    return done


def test_holds_in_force_are_ended() -> None:
    topic = topic_with(mallory=held(), alice=held())
    assert steps(topic, NOON_MS + 1) == ["hold on User:mallory", "hold on User:alice"]
    assert topic.state.holds == {}
    assert steps(topic_with(mallory=held()), NOON_MS + HOLD_MS) == []


def test_nothing_is_removed_while_a_stream_would_hold_again() -> None:
    topic = topic_with(mallory=held(epoch=1, writer="stream-1"), alice=held())
    with pytest.raises(RemovalError, match=r"stream stream-1 holds principals.*: start it without --enforce"):
        steps(topic, NOON_MS + 1)
    assert len(topic.state.holds) == 2


def test_holds_of_a_stream_that_no_longer_extends_them_are_ended() -> None:
    topic = topic_with(mallory=held(epoch=1, writer="stream-1"))
    assert steps(topic, NOON_MS + HOLD_MS // 2 + 1) == ["hold on User:mallory"]


def test_only_brokers_with_a_dynamic_setting_need_the_plugin_unloaded() -> None:
    settings = {
        number: {"metric.reporters": {"value": "a, pidquota.Class", "config_source": source}}
        for number, source in ((1, "STATIC_BROKER_CONFIG"), (2, "DYNAMIC_BROKER_CONFIG"), (3, "STATIC_BROKER_CONFIG"))
    }

    assert by_hand_steps(settings, "pidquota.Class")[:2] == [
        "run `pid-quota plugin unload` first: the setting of broker 2 is dynamic",
        "take pidquota.Class out of metric.reporters on broker 1, 2, 3",
    ]


@pytest.mark.parametrize("name", ["pidquota.HoldAuthorizer", "pidquota.HoldAnyAuthorizer"])
def test_brokers_with_an_authorizer_of_the_plugin_need_another(name: str) -> None:
    authorizer = {"authorizer.class.name": {"value": name}}
    assert by_hand_steps({1: authorizer, 2: {}}, "pidquota.Class")[0] == (
        "set authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer "
        "(or the authorizer that was wrapped) on broker 1"
    )


def test_brokers_without_the_plugin_need_nothing_by_hand() -> None:
    assert by_hand_steps({1: {"metric.reporters": {"value": ""}}}, "pidquota.Class") == []


def test_topics_that_a_plugin_would_make_again_stay() -> None:
    setup, left = Mock(TopicSetup), list[str]()
    names = (PRODUCE_EVENTS, REPORTS, HOLDS)
    setup.describe.return_value = [TopicOutcome(name, "exists", 1) for name in names]

    def removed(*writers: int) -> list[str]:
        return [step.what for step in topic_steps(setup, left.append, writers)]

    assert removed(2, 1) == []
    assert left == [
        f"topic {name}, which the plugin of broker 1, 2 makes: `pid-quota plugin unload` first" for name in names
    ]
    assert removed() == [f"topic {name} and its records" for name in names]
