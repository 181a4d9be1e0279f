"""Steps that remove what pid-quota created on a cluster."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from broker.enforcement.hold_topic import HoldTopic
from broker.enforcement.model import Change
from broker.errors import RemovalError
from broker.kafka.grants import Grant, Grants
from broker.kafka.topic_setup import TopicSetup, plan_topics
from wire.holds import HOLD_ANY_AUTHORIZER, HOLD_AUTHORIZER
from wire.topics import OWN_TOPICS


@dataclass(frozen=True)
class Step:
    """A removal, which `run` carries out."""

    what: str
    run: Callable[[], object]


def hold_steps(topic: HoldTopic, now_ms: int) -> Iterator[Step]:
    """Yield a step for each hold in force.

    Raises:
        RemovalError: If a stream that runs would hold again.
    """
    held = [each for each in topic.state.holds.values() if each.ends_ms > now_ms]
    writers = sorted({each.hold.writer for each in held if not each.is_by_hand and each.is_fresh(now_ms)})
    if writers:
        msg = f"stream {', '.join(writers)} holds principals, and would hold them again: start it without --enforce"
        raise RemovalError(msg)
    for each in held:
        yield Step(f"hold on {each.principal}", partial(topic.write, [Change(each.principal, None)]))


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
            left(f"topic {outcome.name}, which the plugin of broker {named} makes: `pid-quota plugin unload` first")
        elif outcome.action == "exists":
            yield Step(f"topic {outcome.name} and its records", partial(setup.delete, outcome.name))
        elif outcome.action != "missing":
            left(f"topic {outcome.name}, whose settings are not ours: kafka-topics.sh --delete --topic {outcome.name}")


def by_hand_steps(settings: Mapping[int, Mapping[str, Mapping[str, object]]], reporter: str) -> list[str]:
    """Return an operator's steps to remove the plugin from the brokers."""
    wanted = (("metric.reporters", {reporter}), ("authorizer.class.name", {HOLD_AUTHORIZER, HOLD_ANY_AUTHORIZER}))
    found = {
        name: sorted(
            number
            for number, each in settings.items()
            if values & {*str(each.get(name, {}).get("value")).replace(" ", "").split(",")}
        )
        for name, values in wanted
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
        lines.append(f"set authorizer.class.name={stock} (or the authorizer that was wrapped) on broker {where}")
    if lines:
        lines.append("restart these brokers one by one, and then delete pid-quota-broker.jar from their class path")
    return lines
