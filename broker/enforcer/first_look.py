"""The first look of a dry run: asks the brokers and the tables once, and tells what is there."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from broker.cluster.broker_settings import broker_settings
from broker.cluster.client_quotas import CONNECTION_CREATION_RATE
from broker.cluster.cluster_admin import ClusterAdmin
from broker.cluster.hold_bindings import HOLD
from broker.cluster.lazy_admin import LazyAdmin, Subject
from broker.enforcer.notices import Notice, time_text
from broker.enforcer.ports import DecisionSource, QuotaStore
from broker.leases.lease_plan import EnforcerOptions
from broker.leases.lease_targets import ThrottleDecision

_SUBJECT = Subject("the brokers' settings", "DESCRIBE_CONFIGS", "check that this version of Kafka has them")
_WINDOW = "quota.window.size.seconds"
_MOST_NAMED = 10


def look_at_brokers(
    settings: Mapping[str, Any],
    quotas: QuotaStore,
    options: EnforcerOptions,
    notify: Callable[[Notice], None],
    now_ms: int,
) -> None:
    """Ask the brokers once; tell who answers, and what the lever would do on each.

    Args:
        settings: Of a kafka-python client, with `bootstrap_servers`.
        quotas: Theirs.
        options: Of the enforcer.
        notify: Called with what is seen. Holds have a `Coverage` that tells.
        now_ms: Milliseconds since the epoch.

    Raises:
        BrokerUnreachableError: If no broker answers.
        ClientQuotaError: If a right is missing.
    """
    with ClusterAdmin(settings) as admin:
        numbers = ", ".join(map(str, admin.living_brokers()))
    found = len(quotas.describe_all())
    have = "nobody has a client quota" if not found else f"client quotas found: {found}"
    servers = ",".join(settings["bootstrap_servers"])
    notify(Notice(now_ms, "seen", f"of the cluster at {servers} these brokers answer: {numbers}; {have}"))
    if options.lever != HOLD:
        for line in _levers(settings, options):
            notify(Notice(now_ms, "lever", line))


def look_at_decisions(decisions: DecisionSource, tables: str, notify: Callable[[Notice], None], now_ms: int) -> None:
    """Read the tables once; tell which decisions are in force.

    Raises:
        TableError: If they can't be read.
    """
    found = [each for each in decisions.in_force(now_ms, again=True) if each.throttled_until_ms > now_ms]
    what = f"decisions in force in {tables}: {_named(found)}" if found else f"no decision is in force in {tables}"
    notify(Notice(now_ms, "seen", what))


def _levers(settings: Mapping[str, Any], options: EnforcerOptions) -> Iterator[str]:
    with LazyAdmin(settings, _SUBJECT) as admin:
        for number, values in broker_settings(admin).items():
            if options.lever == CONNECTION_CREATION_RATE:
                would = f"accept {options.value:g} new connections a second from the host of a throttled principal"
            else:
                late = f"up to {values.get(_WINDOW) or 1} s late ({_WINDOW})"
                would = f"answer a throttled client {late}, once it uses more than {options.value:g} % of a thread"
            yield f"broker {number} would {would}"


def _named(decisions: Sequence[ThrottleDecision]) -> str:
    named = [f"{each.principal} until {time_text(each.throttled_until_ms)}" for each in decisions[:_MOST_NAMED]]
    more = len(decisions) - len(named)
    return f"{len(decisions)} ({', '.join(named)}{f', and {more} more' if more else ''})"
