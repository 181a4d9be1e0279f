"""The rights of the one Kafka user that reads our topics.

The brokers' own user, as which the plugin writes, needs none where the plugin's authorizer runs.
"""

from dataclasses import dataclass

from confluent_kafka.admin import AclOperation, ResourceType

from wire.topics import HOLDS, PRODUCE_EVENTS, REPORTS

OUR_GROUPS = "pid-quota"
"""Prefix of the consumer groups of all our readers; Spark's Kafka source has it, too."""


@dataclass(frozen=True)
class KafkaRight:
    """An operation on a topic, or on the groups whose names begin with `name`."""

    operation: AclOperation
    kind: ResourceType
    name: str

    @property
    def words(self) -> str:
        """The right in words.

        Examples:
            >>> KafkaRight(AclOperation.READ, ResourceType.GROUP, "pid-quota").words
            'READ on groups pid-quota*'
        """
        where = f"groups {self.name}*" if self.kind is ResourceType.GROUP else f"topic {self.name}"
        return f"{self.operation.name} on {where}"


def run_rights(events_topic: str = PRODUCE_EVENTS) -> list[KafkaRight]:
    """Return what `pid-quota run` needs; nothing on the cluster, or on other topics. READ includes DESCRIBE.

    Examples:
        >>> [right.words for right in run_rights("events")][0]
        'READ on topic events'
    """
    topics = [KafkaRight(AclOperation.READ, ResourceType.TOPIC, name) for name in (events_topic, REPORTS, HOLDS)]
    return [*topics, KafkaRight(AclOperation.READ, ResourceType.GROUP, OUR_GROUPS)]
