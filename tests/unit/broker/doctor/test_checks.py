"""What the doctor says of settings, plugins and clocks, without a broker."""

from collections.abc import Iterable, Sequence
from typing import Any
from unittest.mock import Mock

import pytest

from broker.doctor.cluster_checks import (
    BrokerSettings,
    check_authorizer,
    check_reporters,
    check_topics,
)
from broker.doctor.findings import Finding, Verdict, guarded
from broker.doctor.plugin_checks import (
    MAX_CLOCK_SKEW_MS,
    MAX_SILENCE_MS,
    MAX_WAITING_PIDS,
    check_clocks,
    check_plugins,
)
from broker.errors import RequestNotAllowedError
from broker.kafka.report_tail import DatedState
from broker.kafka.topic_setup import Difference, TopicOutcome, TopicPlan, TopicSetup
from tests.kits.plugin_kit import state_report
from wire.plugin_reports import AliveReport, PluginState, StartReport, StopReport

JMX = "org.apache.kafka.common.metrics.JmxReporter"
PLUGIN = f"{JMX},pidquota.Reporter"
HOLDS, HOLDS_ANY = "pidquota.HoldAuthorizer", "pidquota.HoldAnyAuthorizer"
STOCK, RANGER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "org.apache.ranger.RangerKafkaAuthorizer"
NOW_MS = 1_800_000_000_000


def brokers(*settings: tuple[str | None, str]) -> BrokerSettings:
    """Reporters (None if hidden) and authorizer of each broker."""
    return {
        number: ({} if reporters is None else {"metric.reporters": {"value": reporters}})
        | {"authorizer.class.name": {"value": authorizer}}
        for number, (reporters, authorizer) in enumerate(settings, start=1)
    }


def told(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    return [(each.verdict.value, each.found) for each in findings]


def test_a_broker_without_the_plugin_is_named_and_one_that_hides_its_settings_too() -> None:
    assert [verdict for verdict, _ in told(check_reporters(brokers((PLUGIN, ""), (PLUGIN, ""))))] == ["ok"]
    (missing,) = check_reporters(brokers((PLUGIN, ""), (JMX, "")))
    assert missing.verdict is Verdict.WRONG
    assert "of broker 2 lacks" in missing.found
    assert "plugin load --broker-ids 2" in missing.remedy
    assert ("wrong", "the settings of broker 2 are hidden") in told(check_reporters(brokers((PLUGIN, ""), (None, ""))))


@pytest.mark.parametrize(
    ("authorizers", "verdict", "remedy"),
    [
        ([HOLDS, HOLDS], "ok", ""),
        ([HOLDS_ANY, HOLDS_ANY], "ok", ""),
        ([HOLDS, STOCK], "wrong", f"authorizer.class.name={HOLDS} in server.properties of broker 2 ("),
        ([STOCK, STOCK], "warning", f"authorizer.class.name={HOLDS} "),
        # Without ACLs, the other class would deny everything; another authorizer's policies must stay.
        (["", ""], "warning", f"authorizer.class.name={HOLDS_ANY} "),
        ([RANGER, RANGER], "warning", f"authorizer.class.name={HOLDS_ANY} "),
        ([HOLDS_ANY, RANGER], "wrong", f"authorizer.class.name={HOLDS_ANY} in server.properties of broker 2 ("),
    ],
)
def test_brokers_that_can_t_hold_are_named_with_the_class_that_fits_their_authorizer(
    authorizers: list[str], verdict: str, remedy: str
) -> None:
    (found,) = check_authorizer(brokers(*((PLUGIN, each) for each in authorizers)))
    assert found.verdict.value == verdict
    assert remedy in found.remedy


def test_brokers_that_hide_their_settings_are_not_said_to_hold_nobody() -> None:
    assert [*check_authorizer(brokers((None, STOCK)))] == []


def dated(state: PluginState, *, ago_s: float = 0) -> DatedState:
    return DatedState(state, NOW_MS - round(1000 * ago_s))


def alive(broker_id: int = 1, **fields: Any) -> DatedState:
    return dated(state_report(AliveReport, broker_id, **({"timestamp_ms": NOW_MS} | fields)))


def of_plugins(*states: DatedState, running: Sequence[int] = (1,)) -> list[tuple[str, str]]:
    return told(check_plugins(running, {each.state.broker_id: each for each in states}, NOW_MS))


@pytest.mark.parametrize(("skew_ms", "side"), [(MAX_CLOCK_SKEW_MS + 1, "ahead of"), (-MAX_CLOCK_SKEW_MS - 1, "behind")])
def test_a_broker_whose_clock_is_wrong_is_named_with_the_side(skew_ms: int, side: str) -> None:
    (found,) = check_clocks([alive(2, timestamp_ms=NOW_MS + skew_ms), alive(3)])
    assert (found.verdict, found.subject, side in found.found) == (Verdict.WRONG, "clock of broker 2", True)
    assert told(check_clocks([alive()])) == [("ok", "brokers within 5 s of each other: 1")]


def test_a_report_that_had_to_wait_says_nothing_of_clocks() -> None:
    late = {"timestamp_ms": NOW_MS - 60_000}
    kinds = [dated(state_report(kind, **late)) for kind in (StartReport, StopReport)]
    assert told(check_clocks([*kinds, alive(4, problem="the events can't be written", **late)])) == []


def test_each_running_broker_needs_a_plugin_that_reported_within_a_minute() -> None:
    assert of_plugins(alive()) == [("ok", "brokers that are watched: 1")]
    assert of_plugins(dated(state_report(StartReport), ago_s=MAX_SILENCE_MS / 1000))[0][0] == "ok"
    silent = dated(state_report(), ago_s=MAX_SILENCE_MS / 1000 + 1)
    assert of_plugins(silent, running=(1, 2)) == [
        ("wrong", "not watched: its plugin last reported 61 s ago"),
        ("wrong", "not watched: its plugin has not reported"),
    ]
    (found,) = check_plugins([7], {}, NOW_MS)
    assert "pid-quota plugin load --broker-ids 7" in found.remedy


def test_a_stopped_plugin_of_a_running_broker_does_not_watch_it() -> None:
    unloaded = dated(state_report(StopReport, shutdown=False), ago_s=2)
    assert of_plugins(unloaded) == [("wrong", "not watched: somebody unloaded its plugin")]
    stopped = dated(state_report(StopReport, shutdown=True), ago_s=9)
    assert of_plugins(stopped) == [
        ("wrong", "not watched: its plugin has not reported since the broker stopped, 9 s ago")
    ]
    # That broker is down.
    assert of_plugins(stopped, alive(2), running=(2,)) == [("ok", "brokers that are watched: 1")]


def test_what_a_plugin_reports_of_itself_is_told() -> None:
    assert of_plugins(alive(problem="topic produce-events can't be written")) == [
        ("wrong", "topic produce-events can't be written")
    ]
    lost = of_plugins(alive(dropped_events=1_200))
    assert [(verdict, text.split(" since ")[0]) for verdict, text in lost] == [
        ("warning", "1,200 events were lost"),
        ("ok", "brokers that are watched: 1"),
    ]
    assert of_plugins(alive(waiting_pids=MAX_WAITING_PIDS))[0][0] == "ok"
    assert of_plugins(alive(waiting_pids=MAX_WAITING_PIDS + 1))[0] == (
        "warning",
        "1,001 PIDs wait for their event to be delivered",
    )
    assert of_plugins(alive(plugin_version="0.0.1"))[0][1].startswith("its plugin is of version 0.0.1, and this is ")


def test_an_authorizer_on_some_brokers_only_is_wrong() -> None:
    with_it, without = alive(1, has_authorizer=True), alive(2)
    (verdict, text), _ = of_plugins(with_it, without, running=(1, 2))
    assert (verdict, "but not on 2" in text) == ("wrong", True)
    assert len(of_plugins(with_it, alive(2, has_authorizer=True), running=(1, 2))) == 1


def test_topics_that_are_missing_are_named_and_a_remedy_keeps_the_retention_that_somebody_chose() -> None:
    week = Difference("retention.ms", "604800000", "86400000")
    differences = {
        "produce-events": [week, Difference("cleanup.policy", "compact", "delete")],
        "pid-quota-reports": [week, Difference("partitions", "3", "1")],
    }

    def describe(plans: Sequence[TopicPlan]) -> list[TopicOutcome]:
        (name,) = (plan.name for plan in plans)
        action = "missing" if name == "pid-quota-holds" else "differs"
        return [TopicOutcome(name, action, 1, differences.get(name, []))]

    setup = Mock(TopicSetup)
    setup.describe.side_effect = describe
    found = {each.subject: (each.found, each.remedy) for each in check_topics(setup)}
    assert found == {
        "topics": ("missing, or hidden from this user: pid-quota-holds", "pid-quota topics create"),
        "topic produce-events": (
            "cleanup.policy is compact, not delete",
            "pid-quota topics create --alter --retention-hours 168",
        ),
        "topic pid-quota-reports": (
            "partitions is 3, not 1",
            "delete the topic while nobody uses it, then pid-quota topics create",
        ),
    }


def test_a_check_that_the_brokers_refuse_is_a_finding_with_the_remedy() -> None:
    def refused() -> Iterable[Finding]:
        msg = "not authorised to read quotas: grant DESCRIBE_CONFIGS"
        raise RequestNotAllowedError(msg)

    (found,) = guarded("client quotas", refused)
    assert (found.verdict, found.found, found.remedy) == (
        Verdict.WRONG,
        "not authorised to read quotas",
        "grant DESCRIBE_CONFIGS",
    )
