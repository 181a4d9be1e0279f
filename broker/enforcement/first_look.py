"""Checks at the start of an enforcer."""

from collections.abc import Callable, Mapping, Sequence

from confluent_kafka.admin import AclOperation, ResourceType

from broker.enforcement.levers.client_quota import QuotaStore
from broker.enforcement.notices import Notice, format_time
from broker.enforcement.ports import DecisionSource
from broker.errors import EnforceError
from broker.kafka.own_rights import OwnRights, lacks
from broker.kafka.roles import HOLDS, RIGHTS, KafkaRight, Role
from broker.kafka.topics import DEFAULT_TIMEOUT_S
from wire.topics import PRODUCE_EVENTS

_MAX_NAMED = 10
_CHANGES = (AclOperation.WRITE, AclOperation.ALTER_CONFIGS, AclOperation.ALTER)


def require_rights(
    settings: Mapping[str, str], *, with_holds: Callable[[], bool], apply: bool, timeout_s: float = DEFAULT_TIMEOUT_S
) -> None:
    """Check this user's rights; without `apply`, only those for a dry run.

    `with_holds` returns whether holds can be used.

    Raises EnforceError, which names all missing rights, or BrokerUnreachableError.
    """
    own = OwnRights(settings, timeout_s)
    missing = own.missing(_needed(own, with_holds=with_holds, apply=apply))
    if missing:
        raise EnforceError(lacks(settings, Role.ENFORCER, missing))


def _needed(own: OwnRights, *, with_holds: Callable[[], bool], apply: bool) -> list[KafkaRight]:
    holds = AclOperation.DESCRIBE_CONFIGS not in own.on_cluster() or with_holds()
    return [
        right
        for right in RIGHTS[Role.ENFORCER]
        if (apply or (right.kind is ResourceType.BROKER and right.operation not in _CHANGES))
        and (holds or right is not HOLDS)
        # DESCRIBE is needed only to list ACLs.
        and (holds or right.operation is not AclOperation.DESCRIBE)
        # Without this right, the enforcer only skips limits on addresses.
        and right.name != PRODUCE_EVENTS
    ]


def look_at_brokers(numbers: Sequence[int], quotas: QuotaStore, notify: Callable[[Notice], None], now_ms: int) -> None:
    """Report which brokers answer, and the number of client quotas."""
    found = len(quotas.describe_all())
    have = "nobody has a client quota" if not found else f"client quotas found: {found}"
    notify(Notice(now_ms, "seen", f"these brokers answer: {', '.join(map(str, numbers))}; {have}"))


def look_at_decisions(decisions: DecisionSource, tables: str, notify: Callable[[Notice], None], now_ms: int) -> None:
    """Report the decisions in force."""
    found = [each for each in decisions.newest(now_ms, again=True) if each.throttled_until_ms > now_ms]
    named = [f"{each.principal} until {format_time(each.throttled_until_ms)}" for each in found[:_MAX_NAMED]]
    more = f", and {len(found) - len(named)} more" if len(found) > len(named) else ""
    some = f"decisions in force in {tables}: {len(found)} ({', '.join(named)}{more})"
    notify(Notice(now_ms, "seen", some if found else f"no decision is in force in {tables}"))
