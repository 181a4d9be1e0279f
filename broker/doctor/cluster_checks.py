"""Checks of topics, and of this user's rights on them."""

from collections.abc import Iterator, Mapping

from broker.doctor.findings import Finding, ok, wrong
from broker.errors import TopicError
from broker.kafka.own_rights import OwnRights, lacks
from broker.kafka.roles import run_rights
from broker.kafka.topic_setup import TopicOutcome, TopicSetup, plan_topics


def check_rights(settings: Mapping[str, str]) -> Iterator[Finding]:
    """Check that this user may do what `pid-quota run` does."""
    missing = OwnRights(settings).missing(run_rights())
    if missing:
        yield wrong("rights", *lacks(settings, missing))
    else:
        yield ok("rights", "this user may read the topics, as `pid-quota run` does")


def check_topics(setup: TopicSetup) -> Iterator[Finding]:
    """Check that our topics exist and have the planned settings."""
    plans, missing, hidden, differ = plan_topics(), list[str](), list[str](), list[Finding]()
    for plan in plans:
        try:
            (found,) = setup.describe([plan])
        except TopicError:
            hidden.append(plan.name)
            continue
        if found.action == "missing":
            missing.append(plan.name)
        differ += _differences(found)
    if missing:
        yield wrong("topics", f"missing, or hidden from this user: {', '.join(missing)}", "pid-quota topics create")
    yield from differ
    if not missing and not differ:
        seen = "their settings" if not hidden else "settings that only the plugin checks: this user may not see them"
        yield ok("topics", f"{len(plans)} topics with {seen}")


def _differences(topic: TopicOutcome) -> Iterator[Finding]:
    for difference in topic.differences:
        text = f"{difference.setting} is {difference.found}, not {difference.wanted}"
        remedy = (
            "delete the topic while nobody uses it, then pid-quota topics create"
            if difference.setting == "partitions"
            else "pid-quota topics create --alter"
        )
        yield wrong(f"topic {topic.name}", text, remedy)
