"""Checks at the start of an enforcer: missing rights, and, for a dry run, what it finds."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin._acl import AclOperation

from broker.enforcement.levers.client_quota import QuotaStore
from broker.enforcement.notices import Notice, format_time
from broker.enforcement.ports import DecisionSource
from broker.errors import EnforceError
from broker.kafka.errors import name_of, reason_of, unreachable
from broker.kafka.topics import admin_client
from wire.topics import ENFORCER_TOPIC

if TYPE_CHECKING:
    from concurrent.futures import Future

_TIMEOUT_S = 15.0
_MAX_NAMED = 10
_QUOTAS = (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)
_HOLDS = (AclOperation.DESCRIBE, AclOperation.ALTER)
_TOPIC = (AclOperation.READ, AclOperation.WRITE)


def require_rights(settings: Mapping[str, str], *, with_holds: Callable[[], bool], apply: bool) -> None:
    """Ask the brokers which operations this user may perform; change nothing.

    Raises EnforceError, which names all missing rights, or BrokerUnreachableError. `with_holds` returns whether holds
    can be used.
    """
    admin = admin_client(settings)
    answer = admin.describe_cluster(include_authorized_operations=True, request_timeout=_TIMEOUT_S)
    cluster = _allowed(settings, answer, is_cluster=True)
    needed = _QUOTAS[: 2 if apply else 1]
    if AclOperation.DESCRIBE_CONFIGS not in cluster or with_holds():
        needed += _HOLDS[: 2 if apply else 1]
    if not cluster:
        # Without DESCRIBE, brokers do not list the other rights.
        needed = (AclOperation.DESCRIBE, *needed)
    missing = _missing(tuple(dict.fromkeys(needed)), cluster, "the cluster")
    if apply:
        topics = TopicCollection([ENFORCER_TOPIC])
        topic = admin.describe_topics(topics, include_authorized_operations=True, request_timeout=_TIMEOUT_S)
        missing += _missing(_TOPIC, _allowed(settings, topic[ENFORCER_TOPIC]), f"topic {ENFORCER_TOPIC}")
        group = admin.describe_consumer_groups(
            [ENFORCER_TOPIC], include_authorized_operations=True, request_timeout=_TIMEOUT_S
        )
        missing += _missing((AclOperation.READ,), _allowed(settings, group[ENFORCER_TOPIC]), f"group {ENFORCER_TOPIC}")
    if missing:
        user = settings.get("sasl.username")
        who = f"User:{user}" if user else "the enforcer's principal"
        msg = f"{who} lacks {', '.join(missing)}: grant that with kafka-acls.sh (docs/enforcement.md, Required rights)"
        raise EnforceError(msg)


def _allowed(settings: Mapping[str, str], asked: "Future[Any]", *, is_cluster: bool = False) -> set[AclOperation]:
    # In a young cluster, topics and groups have no leader or coordinator at first: all operations count as allowed.
    unknown = set() if is_cluster else set(AclOperation)
    try:
        found = asked.result().authorized_operations
    except KafkaException as error:
        if "AUTHORIZATION" in name_of(error):
            return set()
        if is_cluster:
            raise unreachable(settings["bootstrap.servers"], reason_of(error)) from error
        return unknown
    return unknown if found is None else {*found}


def _missing(needed: Sequence[AclOperation], allowed: set[AclOperation], where: str) -> list[str]:
    return [f"{each.name} on {where}" for each in needed if each not in allowed]


def look_at_brokers(numbers: Sequence[int], quotas: QuotaStore, notify: Callable[[Notice], None], now_ms: int) -> None:
    """Report which brokers answer, and the number of client quotas."""
    found = len(quotas.describe_all())
    have = "nobody has a client quota" if not found else f"client quotas found: {found}"
    notify(Notice(now_ms, "seen", f"these brokers answer: {', '.join(map(str, numbers))}; {have}"))


def look_at_decisions(decisions: DecisionSource, tables: str, notify: Callable[[Notice], None], now_ms: int) -> None:
    """Read the tables once; report which decisions are in force."""
    found = [each for each in decisions.newest(now_ms, again=True) if each.throttled_until_ms > now_ms]
    named = [f"{each.principal} until {format_time(each.throttled_until_ms)}" for each in found[:_MAX_NAMED]]
    more = f", and {len(found) - len(named)} more" if len(found) > len(named) else ""
    some = f"decisions in force in {tables}: {len(found)} ({', '.join(named)}{more})"
    notify(Notice(now_ms, "seen", some if found else f"no decision is in force in {tables}"))
