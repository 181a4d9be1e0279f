"""Removes what pid-quota made on a cluster, in an order that leaves nobody throttled."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from broker.enforcement.model import EnforcementRecord, Lease, open_leases
from broker.errors import EnforceError, TopicMissingError
from broker.kafka.grants import Grant, Grants
from broker.kafka.holds import HoldBindings
from broker.kafka.quota_entity import QuotaChange, QuotaEntity
from broker.kafka.quotas import ClientQuotas
from broker.kafka.topic_setup import TopicSetup, plan_topics

CANARY = QuotaEntity("pid-quota-canary")


@dataclass(frozen=True)
class Step:
    """One removal; `run` carries it out."""

    what: str
    run: Callable[[], object]


def require_no_enforcer(hosts: Sequence[str]) -> None:
    """Raise EnforceError if an enforcer runs: it would throttle again."""
    if hosts:
        msg = f"an enforcer runs on {', '.join(hosts)}, and would throttle again: stop it first"
        raise EnforceError(msg)


def quota_steps(quotas: ClientQuotas, records: Callable[[], Sequence[EnforcementRecord]]) -> Iterator[Step]:
    """Yield the restoration of each client quota that a lease changed, and of the canary's."""
    try:
        leases = [*open_leases(records()).values()]
    except TopicMissingError:
        leases = []
    for lease in leases:
        if lease.value is not None and quotas.describe(lease.target.entity).get(lease.target.lever) == lease.value:
            yield Step(f"{lease.target}, back to {_value(lease)}", _altering(quotas, _restored(lease)))
    for key in quotas.describe(CANARY):
        yield Step(f"{key} on {CANARY}", _altering(quotas, QuotaChange(CANARY, key, None)))


def hold_steps(holds: HoldBindings) -> Iterator[Step]:
    """Yield the removal of each hold."""
    for hold in holds.all():
        yield Step(f"hold on user {hold.user!r}", partial(holds.remove, [hold]))


def grant_steps(grants: Grants, plan: Sequence[Grant]) -> Iterator[Step]:
    """Yield the removal of each right."""
    for each in plan:
        if each.action == "exists":
            yield Step(f"right {each.words}", partial(grants.remove, [each]))


def topic_steps(setup: TopicSetup) -> Iterator[Step]:
    """Yield the deletion of each of our topics."""
    for outcome in setup.describe(plan_topics()):
        if outcome.action != "missing":
            yield Step(f"topic {outcome.name} and its records", partial(setup.delete, outcome.name))


def broker_lines(
    settings: Mapping[int, Mapping[str, Mapping[str, object]]], reporter: str, authorizer: str
) -> list[str]:
    """Return what to take out of the brokers' configuration by hand."""
    found = {
        name: sorted(number for number, each in settings.items() if value in str(each.get(name, {}).get("value")))
        for name, value in (("metric.reporters", reporter), ("authorizer.class.name", authorizer))
    }
    lines = []
    if found["metric.reporters"]:
        where = ", ".join(map(str, found["metric.reporters"]))
        lines.append(f"take {reporter} out of metric.reporters on broker {where}")
    if found["authorizer.class.name"]:
        where = ", ".join(map(str, found["authorizer.class.name"]))
        stock = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        lines.append(f"set authorizer.class.name={stock} on broker {where}")
    if lines:
        lines.append("restart these brokers one by one, and then delete pid-quota-broker.jar from their class path")
    return lines


def _value(lease: Lease) -> str:
    return "none" if lease.previous is None else f"{lease.previous:g}"


def _restored(lease: Lease) -> QuotaChange:
    return QuotaChange(lease.target.entity, lease.target.lever, lease.previous)


def _altering(quotas: ClientQuotas, change: QuotaChange) -> Callable[[], None]:
    def run() -> None:
        (error,) = quotas.alter([change]).values()
        if error is not None:
            raise error

    return run
