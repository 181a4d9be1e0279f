"""The roles of a deployment, and their rights on the cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from confluent_kafka.admin import AclOperation, ResourceType

from wire.topics import ENFORCER_TOPIC, PRODUCE_EVENTS, REPORTS

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
    ENFORCER = "enforcer"
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


_WRITTEN = (PRODUCE_EVENTS, REPORTS)
_OURS = (*_WRITTEN, ENFORCER_TOPIC)
_GROUPS = KafkaRight(AclOperation.READ, ResourceType.GROUP, OUR_GROUPS, "topics can't be read")
HOLDS = _cluster(AclOperation.ALTER, "no holds, which are ACLs")
"""The enforcer's right to change ACLs, needed only if brokers run `pidquota.HoldAuthorizer`."""

RIGHTS: Mapping[Role, tuple[KafkaRight, ...]] = {
    Role.BROKER: (
        *_topic(AclOperation.WRITE, *_WRITTEN, without="the plugin can't write"),
        *_topic(AclOperation.DESCRIBE, *_WRITTEN, without="the plugin can't find its topics"),
        *_topic(AclOperation.CREATE, *_WRITTEN, without="the plugin can't make its topics"),
        *_topic(
            *(AclOperation.DESCRIBE_CONFIGS, *_WRITTEN),
            without="the plugin can't tell that a topic has wrong settings",
        ),
        *(
            right
            for operation in (AclOperation.ALTER, AclOperation.ALTER_CONFIGS)
            for right in _topic(
                operation, *_WRITTEN, without="the plugin can't mend a topic that Kafka created by itself"
            )
        ),
    ),
    Role.STREAM: (
        *_topic(AclOperation.READ, *_WRITTEN, without="the stream can't start"),
        _GROUPS,
        KafkaRight(AclOperation.READ, ResourceType.GROUP, SPARK_GROUPS, "the stream can't start"),
    ),
    Role.ENFORCER: (
        *_topic(AclOperation.READ, ENFORCER_TOPIC, without="the enforcer can't start"),
        *_topic(AclOperation.WRITE, ENFORCER_TOPIC, without="the enforcer can't start"),
        *_topic(AclOperation.READ, PRODUCE_EVENTS, without="no limits on addresses"),
        KafkaRight(AclOperation.READ, ResourceType.GROUP, ENFORCER_TOPIC, "the enforcer can't start"),
        _cluster(AclOperation.DESCRIBE, "the enforcer can't see its rights"),
        _cluster(AclOperation.DESCRIBE_CONFIGS, "the enforcer can't read quotas"),
        _cluster(AclOperation.ALTER_CONFIGS, "the enforcer can't set quotas"),
        HOLDS,
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
        >>> events = rights_of(Role.BROKER, {"produce-events": "events", "pid-quota-reports": None})
        >>> [right.words for right in events][:3]
        ['WRITE on topic events', 'DESCRIBE on topic events', 'CREATE on topic events']
    """
    named = [(right, topics.get(right.name, right.name)) for right in RIGHTS[role]]
    return [replace(right, name=name) for right, name in named if name is not None]
