"""Asks the brokers which operations this user may perform (KIP-430)."""

import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, ResourceType

from broker.errors import RequestNotAllowedError
from broker.kafka.errors import NO_COORDINATOR_YET, name_of, reason_of, unreachable
from broker.kafka.roles import KafkaRight
from broker.kafka.topics import DEFAULT_TIMEOUT_S, admin_client
from quota.typed import typed

if TYPE_CHECKING:
    from concurrent.futures import Future

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

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings, self._admin = settings, admin_client(settings)

    def missing(self, rights: Iterable[KafkaRight]) -> list[KafkaRight]:
        """Return the rights that this user lacks. Raises BrokerUnreachableError or LoginRefusedError."""
        # `metadata` reports a refused login. The other requests only report that no broker answers.
        self._admin.metadata()
        return [right for right in rights if right.operation not in self._operations(right)]

    def _operations(self, right: KafkaRight) -> set[AclOperation]:
        asked: Mapping[str, Future[Any]]
        if right.kind is ResourceType.GROUP:
            asked = self._admin.describe_consumer_groups(
                [right.name], include_authorized_operations=True, request_timeout=DEFAULT_TIMEOUT_S
            )
        else:
            asked = self._admin.describe_topics(
                TopicCollection([right.name]), include_authorized_operations=True, request_timeout=DEFAULT_TIMEOUT_S
            )
        return operations_of(asked[right.name], self._settings["bootstrap.servers"])


def sees_every_topic(settings: Mapping[str, str]) -> bool:
    """Return whether brokers hide no topic from this user."""
    # For a name that no topic has, brokers refuse a user who may not see all topics.
    name = f"{uuid.uuid4().hex}-of-pid-quota"
    # A client that is collected takes its answers with it.
    admin = admin_client(settings)
    error = admin.describe_topics(TopicCollection([name]), request_timeout=DEFAULT_TIMEOUT_S)[name].exception()
    return not (isinstance(error, KafkaException) and "AUTHORIZATION" in name_of(error))


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


def require_rights(settings: Mapping[str, str], rights: Iterable[KafkaRight]) -> None:
    """Check the rights that a command needs. Raises RequestNotAllowedError with all missing rights."""
    missing = OwnRights(settings).missing(rights)
    if missing:
        msg = "{}: run `{}`, or name the user in pid.quota.writers of the brokers".format(*lacks(settings, missing))
        raise RequestNotAllowedError(msg)


def lacks(settings: Mapping[str, str], missing: Iterable[KafkaRight]) -> tuple[str, str]:
    """Return what this user lacks, and the command that grants it.

    Examples:
        >>> from broker.kafka.roles import run_rights
        >>> lacks({"sasl.username": "spark"}, run_rights()[:1])
        ('User:spark lacks READ on topic produce-events', 'pid-quota topics create --reader User:spark')
    """
    user = settings.get("sasl.username")
    who, principal = (f"User:{user}", f"User:{user}") if user else ("this user", "PRINCIPAL")
    named = ", ".join(right.words for right in missing)
    return f"{who} lacks {named}", typed(("pid-quota", "topics", "create", "--reader", principal))
