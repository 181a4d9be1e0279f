"""Steps that remove what pid-quota created on a cluster."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from broker.enforcement.model import CANARY, Lease
from broker.errors import EnforceError
from broker.kafka.grants import Grant, Grants
from broker.kafka.holds import HoldBindings
from broker.kafka.quota_entity import QuotaChange, QuotaEntity
from broker.kafka.quotas import ClientQuotas
from broker.kafka.topic_setup import TopicSetup, plan_topics
from wire.topics import OWN_TOPICS


@dataclass(frozen=True)
class Step:
    """A removal, which `run` carries out."""

    what: str
    run: Callable[[], object]


def require_no_enforcer(hosts: Sequence[str]) -> None:
    """Raise EnforceError if an enforcer runs, because it would throttle principals again."""
    if hosts:
        msg = f"an enforcer runs on {', '.join(hosts)}, and would throttle again: stop it first"
        raise EnforceError(msg)


def quota_steps(
    quotas: ClientQuotas, leases: Sequence[Lease], note: Callable[[Lease], None], left: Callable[[str], None]
) -> Iterator[Step]:
    """Yield a step for each client quota that a lease changed, and for the quotas of the user `CANARY`.

    `note` must log that a lease has ended. Otherwise, if an operator sets the same value, a later removal undoes it.
    `left` gets descriptions of quotas that stay.
    """
    for lease in leases:
        if lease.value is None:
            continue
        found = quotas.describe(lease.target.entity).get(lease.target.lever)
        if found == lease.value:
            change = QuotaChange(lease.target.entity, lease.target.lever, lease.previous)
            yield Step(
                f"{lease.target}, back to {_value(lease.previous)}", partial(_restore, quotas, change, lease, note)
            )
        elif found != lease.previous:
            left(f"{lease.target} is {_value(found)}, which somebody set after pid-quota: it stays")
    canary = QuotaEntity(CANARY)
    for key in quotas.describe(canary):
        yield Step(f"{key} on {canary}", partial(_alter, quotas, QuotaChange(canary, key, None)))


def hold_steps(holds: HoldBindings) -> Iterator[Step]:
    """Yield a step for each hold."""
    for hold in holds.all():
        yield Step(f"hold on user {hold.user!r}", partial(holds.remove, [hold]))


def grant_steps(
    grants: Grants, plan: Sequence[Grant], left: Callable[[str], None], servers: str, *, shared: bool
) -> Iterator[Step]:
    """Yield a step per granted right. Without `shared`, keep those on shared resources: they may predate pid-quota."""
    for each in plan:
        if each.action == "exists" and (shared or not each.right.is_shared):
            yield Step(f"right {each.words}", partial(grants.remove, [each]))
        elif each.action == "exists":
            left(f"right {each.words}, which may be older than pid-quota: {each.command(servers, '--remove')}")


def topic_steps(setup: TopicSetup, left: Callable[[str], None], writers: Collection[int] = ()) -> Iterator[Step]:
    """Yield a step for each of our topics. A topic that differs from the plan stays.

    `writers` has the brokers whose plugin still runs. It would make its topics again, so these topics stay.
    """
    named = ", ".join(map(str, sorted(writers)))
    for outcome in setup.describe(plan_topics()):
        if writers and outcome.name in OWN_TOPICS and outcome.action != "missing":
            left(f"topic {outcome.name}, which the plugin of broker {named} writes: `pid-quota plugin unload` first")
        elif outcome.action == "exists":
            yield Step(f"topic {outcome.name} and its records", partial(setup.delete, outcome.name))
        elif outcome.action != "missing":
            left(f"topic {outcome.name}, whose settings are not ours: kafka-topics.sh --delete --topic {outcome.name}")


def by_hand_steps(
    settings: Mapping[int, Mapping[str, Mapping[str, object]]], reporter: str, authorizer: str
) -> list[str]:
    """Return an operator's steps to remove the plugin from the brokers."""
    found = {
        name: sorted(number for number, each in settings.items() if value in str(each.get(name, {}).get("value")))
        for name, value in (("metric.reporters", reporter), ("authorizer.class.name", authorizer))
    }
    lines = []
    if reporting := found["metric.reporters"]:
        dynamic = [each for each in reporting if "DYNAMIC" in str(settings[each]["metric.reporters"]["config_source"])]
        if dynamic:
            where = ", ".join(map(str, dynamic))
            lines.append(f"run `pid-quota plugin unload` first: the setting of broker {where} is dynamic")
        lines.append(f"take {reporter} out of metric.reporters on broker {', '.join(map(str, reporting))}")
    if found["authorizer.class.name"]:
        where = ", ".join(map(str, found["authorizer.class.name"]))
        stock = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        lines.append(f"set authorizer.class.name={stock} on broker {where}")
    if lines:
        lines.append("restart these brokers one by one, and then delete pid-quota-broker.jar from their class path")
    return lines


def _value(value: float | None) -> str:
    return "none" if value is None else f"{value:g}"


def _restore(quotas: ClientQuotas, change: QuotaChange, lease: Lease, note: Callable[[Lease], None]) -> None:
    _alter(quotas, change)
    note(lease)


def _alter(quotas: ClientQuotas, change: QuotaChange) -> None:
    (error,) = quotas.alter([change]).values()
    if error is not None:
        raise error
