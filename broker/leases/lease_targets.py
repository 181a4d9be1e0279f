"""Chooses the entities a throttle decision targets: a few client ids, the whole user, or its hosts. No I/O."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from broker.cluster.quota_entity import QuotaEntity
from quota.decision import OTHER_CLIENTS
from quota.errors import InvalidPrincipalError
from quota.principals import NEVER_ENFORCED, UNKNOWN_PRINCIPAL, entity_name

Lever = Literal["request_percentage", "connection_creation_rate", "hold"]

MAX_NARROW_CLIENT_IDS = 5
NARROW_SHARE = 0.95
CUT_CLIENT_ID_CHARS = 256
"""Length at which earlier versions truncated client ids; a quota on a truncated id matches no client."""
NEVER_TOUCHED = ("ANONYMOUS", UNKNOWN_PRINCIPAL)
"""Bare names: unauthenticated clients and brokers share the first, the second stands for unknown principals."""

# Default client ids of client libraries: any client may use them.
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
        decision_id: Identifies the decision.
        principal: Such as `User:mallory`.
        decided_at_ms: Event time of the decision, in milliseconds since the epoch.
        throttled_until_ms: When it ends.
        quota: New producer ids per window.
        refused_pids: Distinct producer ids refused in the episode so far.
        client_ids: Refused producer ids, by client id.
        broker_id: Of the broker it is about; None if it is about the cluster.
        ends_sooner: Whether it shortens an earlier one, because the quota was raised or removed.
    """

    decision_id: str
    principal: str
    decided_at_ms: int
    throttled_until_ms: int
    quota: float | None = None
    refused_pids: int = 0
    client_ids: Mapping[str, int] = field(default_factory=dict)
    ends_sooner: bool = False
    broker_id: int | None = None


@dataclass(frozen=True)
class Targets:
    """Entities that a decision targets, and why these."""

    entities: tuple[QuotaEntity, ...]
    why: str


def user_of(principal: str) -> str | None:
    """Return the bare name under which quotas know a principal; None if it has none.

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
    """Whether a principal may be throttled; `never` lists names, bare or with their type.

    Examples:
        >>> may_touch("User:mallory", ["tap"]), may_touch("User:tap", ["tap"]), may_touch("User:ANONYMOUS", [])
        (True, False, False)
    """
    user = user_of(principal)
    # Principals of other types share the client quota of the user of that name.
    names = {principal, user, f"User:{user}"}
    return user is not None and names.isdisjoint({*NEVER_ENFORCED, *NEVER_TOUCHED, *never})


def is_library_default(client_id: str) -> bool:
    """Whether a client id is the default of some client library.

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
    """Choose between a few client ids of the user and the whole user.

    A decision counts refused producer ids by client id, and knows nothing of healthy producers. So a client id counts
    as shared with them if it is a library's default or in `shared`. A lease on a client id is never wider than one on
    its user.

    Args:
        decision: With a principal that `user_of` knows.
        narrow: Whether client ids may be chosen at all.
        shared: Client ids that healthy producers also use, as configured.
        written: Client ids of this user that ever had a lease, to cap the quotas written for a client that changes its
            id each time.
    """
    user = user_of(decision.principal)
    whole = (QuotaEntity(user),)
    if not narrow:
        return Targets(whole, "narrowing is off (--no-narrow)")
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
            return Targets(whole, f"client id {client_id!r} is a default that any client may use")
        if len(client_id) >= CUT_CLIENT_ID_CHARS:
            return Targets(whole, f"a client id of {len(client_id)} characters may be truncated")
        if client_id in shared:
            return Targets(whole, f"client id {client_id!r} is shared with healthy producers (--shared-client-id)")
    if len({*chosen, *written}) > MAX_NARROW_CLIENT_IDS:
        return Targets(whole, f"it has used more than {MAX_NARROW_CLIENT_IDS} client ids over time")
    share = round(100 * covered / total)
    return Targets(tuple(QuotaEntity(user, name) for name in chosen), f"{share} % of its refused PIDs")


def ip_targets(decision: ThrottleDecision, hosts: Mapping[str, Collection[str]]) -> Targets:
    """Choose the hosts that only this principal uses.

    Args:
        decision: To be enforced.
        hosts: Principals by ip.
    """
    own = sorted(ip for ip, principals in hosts.items() if set(principals) == {decision.principal})
    if not own:
        return Targets((), "no host in --principal-ips is used by this principal alone")
    return Targets(tuple(QuotaEntity(ip=ip) for ip in own), "hosts used by this principal alone")


def hold_target(decision: ThrottleDecision) -> QuotaEntity | None:
    """Return whose new producer ids a hold keeps back; None if ACLs can't name the principal as ours do.

    A decision knows no hosts, so it is the user from every host.

    Examples:
        >>> str(hold_target(ThrottleDecision("d", "User:mallory", 0, 1)))
        "new producer ids of user 'mallory'"
    """
    kind, _, name = decision.principal.partition(":")
    return QuotaEntity(name, is_hold=True) if kind == "User" and name not in ("", "*") else None
