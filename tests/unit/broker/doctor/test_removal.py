"""What `pid-quota uninstall` leaves to the operator."""

from typing import Any
from unittest.mock import Mock

import pytest

from broker.doctor.removal import by_hand_steps, quota_steps, topic_steps
from broker.enforcement.model import CANARY, Lease, Target
from broker.errors import BrokerUnreachableError
from broker.kafka.quota_entity import REQUEST_PERCENTAGE, QuotaEntity
from broker.kafka.topic_setup import TopicOutcome, TopicSetup
from tests.kits.enforcer_kit import MALLORY, Faults, MemoryBroker, unavailable
from wire.topics import ENFORCER_TOPIC, PRODUCE_EVENTS, REPORTS

ALICE, BOB, NOBODY = QuotaEntity("alice"), QuotaEntity("bob"), QuotaEntity(CANARY)


class Removal:
    """The steps that remove what leases changed on a broker, and what they said."""

    def __init__(self) -> None:
        self.broker = MemoryBroker(Faults())
        self.ended: list[Lease] = []
        self.left: list[str] = []

    def steps(self, *leases: Lease) -> list[str]:
        """Carry all steps out."""
        quotas: Any = self.broker
        done = []
        for step in quota_steps(quotas, leases, self.ended.append, self.left.append):
            step.run()
            done.append(step.what)
        return done


def lease_of(entity: QuotaEntity, previous: float | None = None, value: float | None = 0.01) -> Lease:
    target = Target("hold" if value is None else "request_percentage", entity)
    return Lease(str(entity), "User:x", target, 9, "decision", value=value, previous=previous)


def test_only_brokers_with_a_dynamic_setting_need_the_plugin_unloaded() -> None:
    settings = {
        number: {"metric.reporters": {"value": "a,pidquota.Class", "config_source": source}}
        for number, source in ((1, "STATIC_BROKER_CONFIG"), (2, "DYNAMIC_BROKER_CONFIG"), (3, "STATIC_BROKER_CONFIG"))
    }

    assert by_hand_steps(settings, "pidquota.Class", "pidquota.Holds")[:2] == [
        "run `pid-quota plugin unload` first: the setting of broker 2 is dynamic",
        "take pidquota.Class out of metric.reporters on broker 1, 2, 3",
    ]


def test_brokers_without_the_plugin_need_nothing_by_hand() -> None:
    assert by_hand_steps({1: {"metric.reporters": {"value": ""}}}, "pidquota.Class", "pidquota.Holds") == []


def test_a_quota_of_a_lease_gets_its_value_before_and_the_lease_is_noted_as_ended() -> None:
    # given
    removal, mallory, alice = Removal(), lease_of(MALLORY, previous=50.0), lease_of(ALICE)
    for entity in (MALLORY, ALICE, NOBODY):
        removal.broker.set(entity, 0.01)

    # when
    done = removal.steps(mallory, alice)

    # then
    assert removal.broker.quotas == {MALLORY: {REQUEST_PERCENTAGE: 50.0}}
    assert (removal.ended, removal.left) == ([mallory, alice], [])
    assert done == [
        "request_percentage on user 'mallory', back to 50",
        "request_percentage on user 'alice', back to none",
        "request_percentage on user 'pid-quota-canary'",
    ]


def test_a_quota_stays_if_somebody_set_it_and_a_lease_that_has_ended_or_a_hold_is_passed_over() -> None:
    removal = Removal()
    removal.broker.set(MALLORY, 7.0)
    removal.broker.set(ALICE, 50.0)

    assert removal.steps(lease_of(MALLORY), lease_of(ALICE, previous=50.0), lease_of(BOB, value=None)) == []

    assert removal.left == ["request_percentage on user 'mallory' is 7, which somebody set after pid-quota: it stays"]
    assert removal.ended == []


def test_a_lease_that_kafka_refuses_to_end_is_not_noted_as_ended() -> None:
    removal = Removal()
    removal.broker.set(MALLORY, 0.01)
    removal.broker.errors[MALLORY] = unavailable()

    with pytest.raises(BrokerUnreachableError):
        removal.steps(lease_of(MALLORY))

    assert removal.ended == []


def test_topics_that_a_plugin_would_make_again_stay() -> None:
    setup, left = Mock(TopicSetup), list[str]()
    names = (PRODUCE_EVENTS, REPORTS, ENFORCER_TOPIC)
    setup.describe.return_value = [TopicOutcome(name, "exists", 1) for name in names]

    def steps(*writers: int) -> list[str]:
        return [step.what for step in topic_steps(setup, left.append, writers)]

    assert steps(2, 1) == [f"topic {ENFORCER_TOPIC} and its records"]
    assert left == [
        f"topic {name}, which the plugin of broker 1, 2 writes: `pid-quota plugin unload` first"
        for name in (PRODUCE_EVENTS, REPORTS)
    ]
    assert steps() == [f"topic {name} and its records" for name in names]
