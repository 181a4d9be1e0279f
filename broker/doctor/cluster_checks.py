"""Checks of brokers, rights and topics."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from broker.doctor.findings import Finding, guarded, ok, warning, wrong
from broker.kafka.acls import AUTHORIZER
from broker.kafka.client import KafkaAdmin
from broker.kafka.own_rights import OwnRights
from broker.kafka.reporters import SETTING
from broker.kafka.roles import RIGHTS, Role
from broker.kafka.topic_setup import TopicPlan, TopicSetup, plan_topics
from wire.holds import HOLD_ANY_AUTHORIZER, HOLD_AUTHORIZER
from wire.plugin_reports import REPORTER_CLASS

_RETENTION = "retention.ms"
_STOCK_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
HOLDING = (HOLD_AUTHORIZER, HOLD_ANY_AUTHORIZER)
BrokerSettings = Mapping[int, Mapping[str, Mapping[str, Any]]]
"""Settings by broker id and setting name, as kafka-python describes them."""


def settings_of_brokers(admin: KafkaAdmin) -> BrokerSettings:
    """Return the settings of all brokers that are up."""
    return {number: admin.broker_settings(number) for number in admin.brokers()}


def check_reporters(found: BrokerSettings) -> Iterator[Finding]:
    """Check that `metric.reporters` of each broker names the plugin."""
    shown = {number: settings[SETTING]["value"] or "" for number, settings in found.items() if SETTING in settings}
    hidden = sorted(found.keys() - shown.keys())
    if hidden:
        remedy = "grant DESCRIBE_CONFIGS on the cluster"
        yield wrong("plugin", f"the settings of {_brokers(hidden)} are hidden", remedy)
    without = sorted(number for number, value in shown.items() if REPORTER_CLASS not in _names(value))
    if without:
        remedy = f"pid-quota plugin load --broker-ids {','.join(map(str, without))} (docs/plugin.md)"
        yield wrong("plugin", f"{SETTING} of {_brokers(without)} lacks {REPORTER_CLASS}", remedy)
    elif shown:
        yield ok("plugin", f"{REPORTER_CLASS} is in {SETTING} of {_brokers(shown)}")


def check_authorizer(found: BrokerSettings) -> Iterator[Finding]:
    """Check that all brokers run an authorizer of the plugin, without which there are no holds."""
    classes = {number: settings.get(AUTHORIZER, {}).get("value") or "" for number, settings in found.items()}
    without = sorted(number for number, each in classes.items() if each not in HOLDING)
    if not classes or not any(SETTING in settings for settings in found.values()):
        # `check_reporters` reports that the settings are hidden.
        return
    if not without:
        yield ok("holds", f"all brokers run {' or '.join(sorted({*classes.values()}))}")
        return
    # Where no authorizer runs, `HoldAuthorizer` would deny everything that no ACL allows.
    stock = all(classes[each] == _STOCK_AUTHORIZER for each in without)
    wanted = HOLD_AUTHORIZER if stock else HOLD_ANY_AUTHORIZER
    remedy = f"authorizer.class.name={wanted} in server.properties of {_brokers(without)} (docs/enforcement.md)"
    if len(without) < len(classes):
        yield wrong("holds", f"{_brokers(without)} can't hold: new producer ids of a held user pass there", remedy)
    else:
        yield warning("holds", "no broker can hold, so quotas are only reported", remedy)


def check_rights(own: OwnRights, role: Role, who: str | None) -> Iterator[Finding]:
    """Check each right that this user (`who`, if known) needs for a role."""
    subject = f"rights, {role.value}"
    needed = RIGHTS[role]
    missing = own.missing(needed)
    remedy = f"pid-quota topics create --{role.value}-principal {who or 'PRINCIPAL'}"
    for right in missing:
        # `topics create` skips a right on a shared resource unless brokers deny access without an ACL: the grant could
        # lock other users out.
        more = ". If it is skipped, read docs/doctor.md, Skipped rights" if right.is_shared else ""
        yield wrong(subject, f"{who or 'this user'} lacks {right.words}: {right.without}", remedy + more)
    if not missing:
        yield ok(subject, f"{who or 'this user'} has all {len(needed)}")


def check_topics(setup: TopicSetup) -> Iterator[Finding]:
    """Check that our topics exist and have the planned settings."""
    plans, missing = plan_topics(), list[str]()
    # Describe one topic at a time. Otherwise, an error for one topic would end the check of all topics.
    found = [each for plan in plans for each in guarded(f"topic {plan.name}", partial(_of_topic, setup, plan, missing))]
    if missing:
        yield wrong("topics", f"missing, or hidden from this user: {', '.join(missing)}", "pid-quota topics create")
    yield from found
    if not missing and not found:
        yield ok("topics", f"{len(plans)} topics with their settings")


def _of_topic(setup: TopicSetup, plan: TopicPlan, missing: list[str]) -> Iterator[Finding]:
    """Yield a topic's differences from the plan. Add a missing topic's name to `missing`."""
    (found,) = setup.describe([plan])
    if found.action == "missing":
        missing.append(plan.name)
    retention = next((each.found for each in found.differences if each.setting == _RETENTION), None)
    for difference in found.differences:
        # An operator may choose another retention.
        if difference.setting != _RETENTION:
            text = f"{difference.setting} is {difference.found}, not {difference.wanted}"
            yield wrong(f"topic {plan.name}", text, _topic_remedy(difference.setting, retention))


def _topic_remedy(setting: str, retention_ms: str | None) -> str:
    """Return a setting's remedy. It repeats the retention, which `topics create --alter` would otherwise reset."""
    if setting == "partitions":
        return "delete the topic while nobody uses it, then pid-quota topics create"
    hours = f" --retention-hours {int(retention_ms) // 3_600_000}" if retention_ms and retention_ms.isdigit() else ""
    return f"pid-quota topics create --alter{hours}"


def _names(value: str) -> list[str]:
    return [name.strip() for name in value.split(",")]


def _brokers(numbers: Iterable[int] | Sequence[int]) -> str:
    named = sorted(numbers)
    return f"broker{'s' if len(named) > 1 else ''} {', '.join(map(str, named))}"
