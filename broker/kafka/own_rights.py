"""Asks the brokers which operations this user may perform (KIP-430)."""

import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, ResourceType

from broker.errors import RequestNotAllowedError
from broker.kafka.errors import NO_COORDINATOR_YET, name_of, reason_of, unreachable
from broker.kafka.roles import EVERY_TOPIC, KafkaRight, Role
from broker.kafka.topics import DEFAULT_TIMEOUT_S, admin_client

if TYPE_CHECKING:
    from concurrent.futures import Future

_PROBE = "-of-pid-quota-doctor"
"""Suffix of a name that no topic has. Brokers refuse requests for the name unless the user may use all topics."""
_UNKNOWN = NO_COORDINATOR_YET | {
    "UNKNOWN_TOPIC_OR_PART",
    "LEADER_NOT_AVAILABLE",
    "GROUP_ID_NOT_FOUND",
    "NOT_LEADER_FOR_PARTITION",
    "_TIMED_OUT",
}
"""Errors about missing topics and groups, or in a new cluster. They don't show that a right is missing."""


class OwnRights:
    """The rights of the user in the client settings."""

    def __init__(self, settings: Mapping[str, str], timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        self._settings, self._timeout_s = settings, timeout_s
        self._admin = admin_client(settings)
        self._cluster: set[AclOperation] | None = None

    def on_cluster(self) -> set[AclOperation]:
        """Return this user's operations on the cluster; none without DESCRIBE. Raises BrokerUnreachableError."""
        if self._cluster is None:
            asked = self._admin.describe_cluster(include_authorized_operations=True, request_timeout=self._timeout_s)
            try:
                found = asked.result().authorized_operations
            except KafkaException as error:
                if "AUTHORIZATION" not in name_of(error):
                    # `metadata` reports a refused login. The error of `describe_cluster` does not.
                    self._admin.metadata(self._timeout_s)
                    raise unreachable(self._settings["bootstrap.servers"], reason_of(error)) from error
                found = None
            self._cluster = set(found or ())
        return self._cluster

    def missing(self, rights: Iterable[KafkaRight]) -> list[KafkaRight]:
        """Return the rights that this user lacks."""
        return [right for right in rights if not self._has(right)]

    def _has(self, right: KafkaRight) -> bool:
        if right.kind is ResourceType.BROKER:
            return right.operation in self.on_cluster()
        if right.name == EVERY_TOPIC:
            return self._may_use_every_topic(right.operation)
        if right.kind is ResourceType.GROUP:
            asked = self._admin.describe_consumer_groups(
                [right.name], include_authorized_operations=True, request_timeout=self._timeout_s
            )
            return right.operation in self._operations(asked[right.name])
        return right.operation in self._operations(self._topics([right.name])[right.name])

    def _may_use_every_topic(self, operation: AclOperation) -> bool:
        probe = f"{uuid.uuid4().hex}{_PROBE}"
        visible = self._admin.metadata(self._timeout_s).topics
        asked = self._topics([probe, *visible])
        return all(operation in self._operations(each) for each in asked.values())

    def _topics(self, names: list[str]) -> "Mapping[str, Future[Any]]":
        found: Mapping[str, Future[Any]] = self._admin.describe_topics(
            TopicCollection(names), include_authorized_operations=True, request_timeout=self._timeout_s
        )
        return found

    def _operations(self, asked: "Future[Any]") -> set[AclOperation]:
        return operations_of(asked, self._settings["bootstrap.servers"])


def operations_of(asked: "Future[Any]", servers: str) -> set[AclOperation]:
    """Return this user's operations on a topic or group: none if the broker refuses, all if they are unknown.

    Operations of missing topics are unknown. Raises BrokerUnreachableError if no broker answers.
    """
    try:
        found = asked.result().authorized_operations
    except KafkaException as error:
        if "AUTHORIZATION" in name_of(error):
            return set()
        if name_of(error) in _UNKNOWN:
            return set(AclOperation)
        raise unreachable(servers, f"{name_of(error)}: {reason_of(error)}") from error
    return set(AclOperation) if found is None else {*found}


def require_rights(settings: Mapping[str, str], role: Role, rights: Iterable[KafkaRight]) -> None:
    """Check the rights that a command needs. Raises RequestNotAllowedError with all missing rights."""
    missing = OwnRights(settings).missing(rights)
    if missing:
        raise RequestNotAllowedError(lacks(settings, role, missing))


def lacks(settings: Mapping[str, str], role: Role, missing: Iterable[KafkaRight]) -> str:
    """Return the message about missing rights.

    Examples:
        >>> from broker.kafka.roles import RIGHTS
        >>> lacks({"sasl.username": "spark"}, Role.STREAM, RIGHTS[Role.STREAM][:1])
        'User:spark lacks READ on topic produce-events: run `pid-quota topics create --stream-principal User:spark`'
    """
    user = settings.get("sasl.username")
    who, principal = (f"User:{user}", f"User:{user}") if user else (f"the {role.value}'s principal", "PRINCIPAL")
    named = ", ".join(right.words for right in missing)
    return f"{who} lacks {named}: run `pid-quota topics create --{role.value}-principal {principal}`"
