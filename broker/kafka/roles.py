"""The roles of a deployment, and their rights on the cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from confluent_kafka.admin import AclOperation, ResourceType

from wire.topics import HOLDS, PRODUCE_EVENTS, REPORTS

CLUSTER = "kafka-cluster"
EVERY_TOPIC = "*"
OUR_GROUPS = "pid-quota"
SPARK_GROUPS = "spark-kafka-"
"""Prefix of the consumer groups of Spark's Kafka source."""


class Role(str, Enum):
    """A part of pid-quota, or a person, with its own Kafka user."""

    BROKER = "broker"
    """The brokers' own user, as which the plugin writes. A super user needs no rights."""
    STREAM = "stream"
    OPERATOR = "operator"
    """Runs commands that ask the brokers: doctor, occupancy, why, blocks."""


@dataclass(frozen=True)
class KafkaRight:
    """An operation on a resource. Names of groups are prefixes. `without` says what fails without the right."""

    operation: AclOperation
    kind: ResourceType
    name: str
    without: str

    @property
    def is_shared(self) -> bool:
        """Whether other users also need the resource.

        With `allow.everyone.if.no.acl.found=true`, the first ACL on a resource denies it to everybody else.
        """
        return self.name in (CLUSTER, EVERY_TOPIC, SPARK_GROUPS)

    @property
    def words(self) -> str:
        """The right in words.

        Examples:
            >>> KafkaRight(AclOperation.READ, ResourceType.GROUP, "pid-quota", "").words
            'READ on groups pid-quota*'
        """
        if self.name == CLUSTER:
            where = "the cluster"
        elif self.name == EVERY_TOPIC:
            where = "all topics"
        else:
            where = f"groups {self.name}*" if self.kind is ResourceType.GROUP else f"topic {self.name}"
        return f"{self.operation.name} on {where}"


def _topic(operation: AclOperation, *names: str, without: str) -> tuple[KafkaRight, ...]:
    return tuple(KafkaRight(operation, ResourceType.TOPIC, name, without) for name in names)


def _cluster(operation: AclOperation, without: str) -> KafkaRight:
    return KafkaRight(operation, ResourceType.BROKER, CLUSTER, without)


_OURS = (PRODUCE_EVENTS, REPORTS, HOLDS)
_GROUPS = KafkaRight(AclOperation.READ, ResourceType.GROUP, OUR_GROUPS, "topics can't be read")

RIGHTS: Mapping[Role, tuple[KafkaRight, ...]] = {
    Role.BROKER: (
        *_topic(AclOperation.WRITE, *_OURS, without="the plugin can't write"),
        *_topic(AclOperation.READ, HOLDS, without="the plugin's authorizer holds nobody"),
        *_topic(AclOperation.DESCRIBE, *_OURS, without="the plugin can't find its topics"),
        *_topic(AclOperation.CREATE, *_OURS, without="the plugin can't make its topics"),
        *_topic(
            *(AclOperation.DESCRIBE_CONFIGS, *_OURS),
            without="the plugin can't tell that a topic has wrong settings",
        ),
        *(
            right
            for operation in (AclOperation.ALTER, AclOperation.ALTER_CONFIGS)
            for right in _topic(operation, *_OURS, without="the plugin can't mend a topic that Kafka created by itself")
        ),
    ),
    Role.STREAM: (
        *_topic(AclOperation.READ, *_OURS, without="the stream can't start"),
        _GROUPS,
        KafkaRight(AclOperation.READ, ResourceType.GROUP, SPARK_GROUPS, "the stream can't start"),
    ),
    Role.OPERATOR: (
        _cluster(AclOperation.DESCRIBE, "the brokers hide ACLs and rights"),
        _cluster(AclOperation.DESCRIBE_CONFIGS, "the brokers hide their settings and quotas"),
        *_topic(AclOperation.READ, EVERY_TOPIC, without="partial answers of occupancy and why"),
        *_topic(AclOperation.READ, *_OURS, without="doctor sees nothing of it"),
        *_topic(AclOperation.DESCRIBE_CONFIGS, *_OURS, without="doctor can't compare the settings of topics"),
        _GROUPS,
    ),
}


def rights_of(role: Role, topics: Mapping[str, str | None]) -> list[KafkaRight]:
    """Return a role's rights. `topics` gives some topics another name; None leaves out a topic.

    Examples:
        >>> others = {"pid-quota-reports": None, "pid-quota-holds": None}
        >>> events = rights_of(Role.BROKER, {"produce-events": "events", **others})
        >>> [right.words for right in events][:3]
        ['WRITE on topic events', 'DESCRIBE on topic events', 'CREATE on topic events']
    """
    named = [(right, topics.get(right.name, right.name)) for right in RIGHTS[role]]
    return [replace(right, name=name) for right, name in named if name is not None]
