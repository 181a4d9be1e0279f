"""Chooses the targets of `request_percentage`: a few client ids, or the whole user. No I/O."""

import re
from collections.abc import Mapping, Sequence

from broker.enforcement.levers.base import NEARLY_ALL, TargetLimits, Targets
from broker.enforcement.model import Target, ThrottleDecision, user_of
from broker.kafka.quota_entity import QuotaEntity
from quota.decision import OTHER_CLIENTS

MAX_NARROW_CLIENT_IDS = 5
MAX_CLIENT_ID_CHARS = 256
"""The class in brokers truncates longer client ids; a quota on a truncated id matches no client."""

# Default client ids of client libraries: any client may use them.
_LIBRARY_DEFAULTS = re.compile(
    r"|rdkafka|sarama|default|unknown|kafka|kafkajs|kafka-clients?|kgo|client|producer|"
    r"(producer|console-producer|kafka-producer|connector-producer)-?\d*|"
    r"(confluent-kafka|kafka-python|librdkafka|aiokafka|kafka-go|segmentio|franz-go|ruby-kafka|node-rdkafka)\b.*",
    re.IGNORECASE,
)


def is_library_default(client_id: str) -> bool:
    """Whether a client id is the default of some client library.

    Examples:
        >>> [is_library_default(name) for name in ("rdkafka", "producer-1", "confluent-kafka-python-2.1", "")]
        [True, True, True, True]
        >>> is_library_default("orders-importer")
        False
    """
    return _LIBRARY_DEFAULTS.fullmatch(client_id) is not None


def user_targets(decision: ThrottleDecision, limits: TargetLimits) -> Targets:
    """Choose between a few client ids of the user and the whole user, for `request_percentage`.

    A decision counts refused producer ids by client id, but has no data on healthy producers. So a client id counts as
    shared with them if it is a library's default or an operator lists it. A lease on a client id is never wider than
    one on its user.

    `limits.written` bounds the quotas for a client that changes its id each time.
    """
    user = user_of(decision.principal)
    if decision.principal != f"User:{user}":
        return Targets((), f"a client quota would slow User:{user}, too")
    chosen, covered, total = _heaviest(decision.client_ids)
    why_not = _why_whole_user(chosen, limits)
    if why_not and limits.spare_user:
        return Targets((), f"known producers of {user} go on ({why_not})")
    if why_not:
        return Targets((_target(user),), why_not)
    return Targets(
        tuple(_target(user, name) for name in chosen), f"{round(100 * covered / total)} % of its refused PIDs"
    )


def _target(user: str | None, client_id: str | None = None) -> Target:
    return Target("request_percentage", QuotaEntity(user, client_id))


def _heaviest(client_ids: Mapping[str, int]) -> tuple[list[str], int, int]:
    """Return the fewest client ids that make up nearly all refused producer ids, how many those are, and the total."""
    total, covered = sum(client_ids.values()), 0
    chosen: list[str] = []
    for client_id, refused in sorted(client_ids.items(), key=lambda item: (-item[1], item[0])):
        if covered >= NEARLY_ALL * total:
            break
        chosen.append(client_id)
        covered += refused
    return chosen, covered, total


def _why_whole_user(chosen: Sequence[str], limits: TargetLimits) -> str:
    if not limits.narrow:
        return "narrowing is off (--no-narrow)"
    if not chosen:
        return "no client ids are known"
    if len(chosen) > MAX_NARROW_CLIENT_IDS:
        return f"more than {MAX_NARROW_CLIENT_IDS} client ids make up 95 % of the refused PIDs"
    for client_id in chosen:
        if client_id == OTHER_CLIENTS or is_library_default(client_id):
            return f"client id {client_id!r} is a default that any client may use"
        if len(client_id) >= MAX_CLIENT_ID_CHARS:
            return f"a client id of {len(client_id)} characters may be truncated"
        if client_id in limits.shared_client_ids:
            return f"client id {client_id!r} is shared with healthy producers (--shared-client-id)"
    if len({*chosen, *limits.written}) > MAX_NARROW_CLIENT_IDS:
        return f"it has used more than {MAX_NARROW_CLIENT_IDS} client ids over time"
    return ""
