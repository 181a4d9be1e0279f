"""Chooses whose quota a throttle decision lowers: a few client ids of the user, the user, or its hosts. No I/O."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from broker.cluster.quota_entity import QuotaEntity
from quota.decision import OTHER_CLIENTS
from quota.errors import InvalidPrincipalError
from quota.principals import NEVER_ENFORCED, UNKNOWN_PRINCIPAL, entity_name

Lever = Literal["request_percentage", "connection_creation_rate"]

MAX_NARROW_CLIENT_IDS = 5
NARROW_SHARE = 0.95
CUT_CLIENT_ID_CHARS = 256
"""Decisions of earlier versions hold client ids cut at this length: a quota on one would be for a client nobody has."""
NEVER_TOUCHED = ("ANONYMOUS", UNKNOWN_PRINCIPAL)
"""Bare names: unauthenticated clients and brokers share the first, the second is nobody."""

# What client libraries call a client that was given no name: anybody may be behind it.
_LIBRARY_DEFAULTS = re.compile(
    r"|rdkafka|sarama|default|unknown|kafka|kafkajs|kafka-clients?|kgo|client|producer|"
    r"(producer|console-producer|kafka-producer|connector-producer)-?\d*|"
    r"(confluent-kafka|kafka-python|librdkafka|aiokafka|kafka-go|segmentio|franz-go|ruby-kafka|node-rdkafka)\b.*",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class ThrottleDecision:
    """The newest row of a principal in `throttle_decisions`, as far as enforcement needs it.

    Attributes:
        decision_id: Its name.
        principal: Such as `User:mallory`.
        decided_at_ms: Event time of the decision, in milliseconds since the epoch.
        throttled_until_ms: When it ends.
        quota: New producer ids per window.
        refused_pids: Distinct producer ids refused in the episode so far.
        client_ids: Refused producer ids by client id.
        ends_sooner: Whether it ends an earlier one, since the quota was raised or removed.
    """

    decision_id: str
    principal: str
    decided_at_ms: int
    throttled_until_ms: int
    quota: float | None = None
    refused_pids: int = 0
    client_ids: Mapping[str, int] = field(default_factory=dict)
    ends_sooner: bool = False


@dataclass(frozen=True)
class Targets:
    """Whom a decision is carried out on, and why them."""

    entities: tuple[QuotaEntity, ...]
    why: str


def user_of(principal: str) -> str | None:
    """Return the bare name that quotas know a principal by; None for one that has none.

    Examples:
        >>> user_of("User:mallory"), user_of("unknown"), user_of("mallory")
        ('mallory', None, None)
    """
    if principal == UNKNOWN_PRINCIPAL:
        return None
    try:
        return entity_name(principal)
    except InvalidPrincipalError:
        return None


def may_touch(principal: str, never: Collection[str]) -> bool:
    """Whether a principal may be throttled; `never` holds names, bare or with their type.

    Examples:
        >>> may_touch("User:mallory", ["tap"]), may_touch("User:tap", ["tap"]), may_touch("User:ANONYMOUS", [])
        (True, False, False)
    """
    names = {principal, user_of(principal)}
    return None not in names and names.isdisjoint({*NEVER_ENFORCED, *NEVER_TOUCHED, *never})


def is_library_default(client_id: str) -> bool:
    """Whether a client id is what a library takes when it is given none.

    Examples:
        >>> [is_library_default(name) for name in ("rdkafka", "producer-1", "confluent-kafka-python-2.1", "")]
        [True, True, True, True]
        >>> is_library_default("orders-importer")
        False
    """
    return _LIBRARY_DEFAULTS.fullmatch(client_id) is not None


def user_targets(
    decision: ThrottleDecision, *, narrow: bool, shared: Collection[str] = (), written: Collection[str] = ()
) -> Targets:
    """Choose between a few client ids of the user and the user as a whole.

    A decision knows its refused producer ids by client id, and nothing of the healthy ones. So a client id is taken
    to be shared with healthy producers if its name is a library's default or in `shared`. A lease on a client id is
    never wider than one on its user.

    Args:
        decision: With a principal that `user_of` knows.
        narrow: Whether client ids may be chosen at all.
        shared: Client ids that healthy producers use too, by the operator's word.
        written: Client ids of this user that ever had a lease: a client that takes a new id each time must not make
            us write a quota for each.
    """
    user = user_of(decision.principal)
    whole = (QuotaEntity(user),)
    if not narrow:
        return Targets(whole, "narrowing is off")
    total = sum(decision.client_ids.values())
    chosen: list[str] = []
    covered = 0
    for client_id, refused in sorted(decision.client_ids.items(), key=lambda item: (-item[1], item[0])):
        if covered >= NARROW_SHARE * total:
            break
        chosen.append(client_id)
        covered += refused
    if not covered:
        return Targets(whole, "no client ids are known")
    if len(chosen) > MAX_NARROW_CLIENT_IDS:
        return Targets(whole, f"more than {MAX_NARROW_CLIENT_IDS} client ids make up 95 % of the refused PIDs")
    for client_id in chosen:
        if client_id == OTHER_CLIENTS or is_library_default(client_id):
            return Targets(whole, f"client id {client_id!r} names no client")
        if len(client_id) >= CUT_CLIENT_ID_CHARS:
            return Targets(whole, f"a client id of {len(client_id)} characters may be cut")
        if client_id in shared:
            return Targets(whole, f"client id {client_id!r} is shared")
    if len({*chosen, *written}) > MAX_NARROW_CLIENT_IDS:
        return Targets(whole, f"it has used more than {MAX_NARROW_CLIENT_IDS} client ids over time")
    share = round(100 * covered / total)
    return Targets(tuple(QuotaEntity(user, name) for name in chosen), f"{share} % of its refused PIDs")


def ip_targets(decision: ThrottleDecision, hosts: Mapping[str, Collection[str]]) -> Targets:
    """Choose the hosts that a principal has to itself.

    Args:
        decision: What to carry out.
        hosts: Principals seen, by ip.
    """
    own = sorted(ip for ip, principals in hosts.items() if set(principals) == {decision.principal})
    if not own:
        return Targets((), "no host is known that it has to itself")
    return Targets(tuple(QuotaEntity(ip=ip) for ip in own), "hosts that it has to itself")
