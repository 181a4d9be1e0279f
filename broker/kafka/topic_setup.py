"""Creates the project's topics, and compares them with the plan."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewTopic

from broker.errors import TopicError
from broker.kafka.errors import name_of
from broker.kafka.silence import result_of
from broker.kafka.topics import DEFAULT_TIMEOUT_S, admin_client, create_topics, existing_topics, seen_by_brokers
from wire.topics import EVENT_PARTITIONS, NEW_TOPIC_SETTINGS, PRODUCE_EVENTS, topic_settings

_HOUR_MS = 3600 * 1000
_CREATED, _EXISTS, _DIFFERS, _ALTERED, _MISSING = "created", "exists", "differs", "altered", "missing"


@dataclass(frozen=True)
class TopicPlan:
    """The desired state of a topic. Other settings have the cluster's defaults.

    Attributes:
        partitions: If None, any number fits.
        of_new: Further settings of a new topic. An administrator may have chosen others since.
        partitions_of_new: The number of partitions of a new topic.
    """

    name: str
    settings: Mapping[str, str]
    partitions: int | None = 1
    of_new: Mapping[str, str] = field(default_factory=dict)
    partitions_of_new: int = 1


@dataclass(frozen=True)
class Difference:
    """A setting of a topic that differs from the plan."""

    setting: str
    found: str
    wanted: str


@dataclass(frozen=True)
class TopicOutcome:
    """The state of a topic, or its change. `differences` describes the topic before the change."""

    name: str
    action: str
    partitions: int
    differences: list[Difference] = field(default_factory=list)


def plan_topics(partitions: int | None = None, retention_hours: int | None = None) -> list[TopicPlan]:
    """Plan all our topics. Only `produce-events` may have several partitions.

    `retention_hours` must exceed the longest downtime of the stream. What is None has a default for new topics, and is
    as it is for existing topics.
    """
    retention = None if retention_hours is None else {"retention.ms": str(retention_hours * _HOUR_MS)}
    return [
        TopicPlan(
            name,
            settings | (retention or {}),
            partitions if name == PRODUCE_EVENTS else 1,
            {} if retention else NEW_TOPIC_SETTINGS,
            (partitions or EVENT_PARTITIONS) if name == PRODUCE_EVENTS else 1,
        )
        for name, settings in topic_settings().items()
    ]


class TopicSetup:
    """The topics of one cluster."""

    def __init__(self, config: Mapping[str, str], timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        self._config, self._timeout_s, self._admin = config, timeout_s, admin_client(config)

    def describe(self, plans: Sequence[TopicPlan]) -> list[TopicOutcome]:
        """Compare topics with the plans."""
        found = existing_topics(self._admin, self._timeout_s)
        settings = self._settings([plan.name for plan in plans if plan.name in found])
        return [
            compared(plan, found[plan.name], settings[plan.name])
            if plan.name in settings
            else TopicOutcome(plan.name, _MISSING, 0)
            for plan in plans
        ]

    def create(
        self, plans: Sequence[TopicPlan], *, replication_factor: int = -1, alter: bool = False
    ) -> list[TopicOutcome]:
        """Create missing topics. With `alter`, change settings that differ from the plan.

        This never adds partitions, because a principal's events would lose their order.
        """
        planned = {plan.name: plan for plan in plans}
        outcomes = []
        for outcome in self.describe(plans):
            plan = planned[outcome.name]
            if outcome.action == _MISSING:
                topic = NewTopic(
                    plan.name, plan.partitions_of_new, replication_factor, config={**plan.settings, **plan.of_new}
                )
                is_created = create_topics(self._admin, [topic], self._timeout_s)[plan.name]
                outcomes.append(TopicOutcome(plan.name, _CREATED if is_created else _EXISTS, plan.partitions_of_new))
            elif alter and any(difference.setting in plan.settings for difference in outcome.differences):
                self._alter(plan, outcome.differences)
                outcomes.append(replace(outcome, action=_ALTERED))
            else:
                outcomes.append(outcome)
        return outcomes

    def delete(self, name: str) -> None:
        """Delete a topic and its records, and wait until a broker no longer lists the topic."""
        (answer,) = self._admin.delete_topics([name], request_timeout=self._timeout_s).values()
        if not _is_gone(answer):
            self._result(answer, f"can't delete topic {name!r}", "DELETE on it")
        if not seen_by_brokers(lambda: name not in existing_topics(self._admin, self._timeout_s), self._timeout_s):
            msg = f"topic {name!r} was deleted, but is still visible after {self._timeout_s:g} s: try again"
            raise TopicError(msg)

    def _settings(self, names: list[str]) -> dict[str, dict[str, str]]:
        """Return the settings of existing topics. Brokers may still list a topic that was just deleted."""
        if not names:
            return {}
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        answers = self._admin.describe_configs(resources, request_timeout=self._timeout_s)
        return {
            resource.name: {
                name: str(entry.value)
                for name, entry in self._result(
                    answer, f"can't read the settings of topic {resource.name!r}", "DESCRIBE_CONFIGS on it"
                ).items()
            }
            for resource, answer in answers.items()
            if not _is_gone(answer)
        }

    def _alter(self, plan: TopicPlan, differences: Sequence[Difference]) -> None:
        changes = [
            ConfigEntry(difference.setting, difference.wanted, incremental_operation=AlterConfigOpType.SET)
            for difference in differences
            if difference.setting in plan.settings
        ]
        resource = ConfigResource(ResourceType.TOPIC, plan.name, incremental_configs=changes)
        for answer in self._admin.incremental_alter_configs([resource], request_timeout=self._timeout_s).values():
            self._result(answer, f"can't alter topic {plan.name!r}", "ALTER_CONFIGS on it")

    def _result(self, answer: Future[Any], failure: str, needed: str) -> Any:
        return result_of(answer, self._config, failure, lambda _: f"{needed} is needed")


def _is_gone(answer: Future[Any]) -> bool:
    error = answer.exception()
    return isinstance(error, KafkaException) and name_of(error) == "UNKNOWN_TOPIC_OR_PART"


def compared(plan: TopicPlan, partitions: int, settings: Mapping[str, str]) -> TopicOutcome:
    """Return how an existing topic differs from its plan."""
    differences = [
        Difference(name, settings.get(name, "nothing"), wanted)
        for name, wanted in plan.settings.items()
        if _parts(settings.get(name, "")) != _parts(wanted)
    ]
    if plan.partitions is not None and plan.partitions != partitions:
        differences.append(Difference("partitions", str(partitions), str(plan.partitions)))
    return TopicOutcome(plan.name, _DIFFERS if differences else _EXISTS, partitions, differences)


def _parts(value: str) -> set[str]:
    # cleanup.policy is an unordered list.
    return set(value.split(","))
