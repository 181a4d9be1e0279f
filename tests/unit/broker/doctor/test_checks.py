"""What the doctor says of topics, plugins, clocks and holds, without a broker."""

from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from typing import Any
from unittest.mock import Mock

import pytest

from broker.doctor.cluster_checks import check_topics
from broker.doctor.findings import Finding, Verdict, guarded
from broker.doctor.hold_checks import check_holds
from broker.doctor.plugin_checks import (
    MAX_CLOCK_SKEW_MS,
    MAX_SILENCE_MS,
    MAX_WAITING_PIDS,
    check_clocks,
    check_plugins,
    require_no_plugin,
)
from broker.enforcement.model import Change
from broker.errors import RemovalError, RequestNotAllowedError, TopicError
from broker.kafka.report_tail import DatedState
from broker.kafka.topic_setup import Difference, TopicOutcome, TopicPlan, TopicSetup, compared, plan_topics
from tests.kits.hold_topic_kit import CLUSTER, MemoryTopic
from tests.kits.hold_topic_kit import held as on_broker
from tests.kits.plugin_kit import state_report
from wire.holds import Hold, WriterRecord
from wire.plugin_reports import AliveReport, PluginState, StartReport, StopReport

NOW_MS = 1_800_000_000_000


def told(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    return [(each.verdict.value, each.found) for each in findings]


def dated(state: PluginState, *, ago_s: float = 0) -> DatedState:
    return DatedState(state, NOW_MS - round(1000 * ago_s))


def alive(broker_id: int = 1, **fields: Any) -> DatedState:
    usual = {"timestamp_ms": NOW_MS, "has_authorizer": True}
    return dated(state_report(AliveReport, broker_id, **(usual | fields)))


def of_plugins(*states: DatedState, running: Sequence[int] = (1,)) -> list[tuple[str, str]]:
    found = told(check_plugins(running, {each.state.broker_id: each for each in states}, NOW_MS))
    return [(verdict, text) for verdict, text in found if " hold" not in text]


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
    assert "pid-quota plugin load 7" in found.remedy


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


def test_a_plugin_of_another_version_is_named_with_both_versions_and_the_remedies() -> None:
    found, *_ = check_plugins([1], {1: alive(plugin_version="0.0.1")}, NOW_MS)
    assert found.verdict is Verdict.WARNING
    ours = metadata.version("pid-quota")
    assert found.found == f"its plugin is of version 0.0.1, and pid-quota here of {ours}"
    assert found.remedy == "pid-quota broker-jar FOLDER, and restart broker 1; or install pid-quota 0.0.1 here"


@pytest.mark.parametrize(
    ("able", "verdict", "text"),
    [
        ((True, True), "ok", "brokers that can hold: 2"),
        ((True, False), "wrong", "broker 2 can't hold: new producer ids of a held user pass there"),
        ((False, False), "warning", "no broker can hold, so quotas are only reported"),
    ],
)
def test_brokers_that_can_t_hold_are_named(able: tuple[bool, bool], verdict: str, text: str) -> None:
    states = {number: alive(number, has_authorizer=each) for number, each in enumerate(able, start=1)}
    (found,) = (each for each in check_plugins([1, 2], states, NOW_MS) if each.subject == "authorizer")
    assert (found.verdict.value, found.found) == (verdict, text)
    assert bool(found.remedy) == (verdict != "ok")


def test_topics_are_not_deleted_while_a_plugin_runs() -> None:
    stopped = dated(state_report(StopReport, 2, shutdown=False))
    require_no_plugin({1: dated(state_report(), ago_s=61), 2: stopped}, NOW_MS)
    with pytest.raises(RemovalError, match=r"the plugin of broker 3 runs, .*: take pidquota\.Reporter out of"):
        require_no_plugin({2: stopped, 3: alive(3)}, NOW_MS)


HOLD_MS = 600_000


def hold(writer: str = "carol@host", *, epoch: int | None = None) -> Hold:
    return Hold(cluster_id=CLUSTER, hold_ms=HOLD_MS, until_ms=NOW_MS + HOLD_MS, writer=writer, writer_epoch=epoch)


def of_holds(
    holds: Mapping[str, Hold],
    *,
    after_ms: int,
    obeyed: Sequence[str] = (),
    released: str | None = None,
    release_ms: int = HOLD_MS,
    streams: Sequence[str] = (),
) -> list[str]:
    """Findings this long after users were held, on a broker that holds `obeyed`, by people and these streams."""
    topic = MemoryTopic(NOW_MS)
    topic.alive()
    for each in streams:
        topic.announce(WriterRecord(each, 1, None))
    topic.write([Change(f"User:{user}", each) for user, each in holds.items()])
    if released:
        topic.release(released, release_ms)
    topic.obey(held=[on_broker(f"User:{user}") for user in obeyed])
    topic.poll()
    return [f"{each.verdict.value}: {each.found}" for each in check_holds(topic.state, [1], NOW_MS + after_ms)]


def test_holds_that_brokers_obey_are_listed() -> None:
    assert of_holds({}, after_ms=1) == ["ok: on hold: nobody"]
    both = {"mallory": hold(), "alice": hold("one", epoch=1)}
    found = of_holds(both, after_ms=20_000, obeyed=("mallory", "alice"), streams=["one"])
    assert found == ["ok: on hold: User:mallory User:alice"]
    assert of_holds(both, after_ms=HOLD_MS) == ["ok: on hold: nobody"]
    assert of_holds(both, after_ms=20_000, released="*") == ["ok: on hold: nobody"]


def test_two_streams_that_enforce_are_wrong() -> None:
    assert of_holds({}, after_ms=1, streams=["two", "one"]) == [
        "wrong: streams one, two run with --enforce, and only the first one holds"
    ]


def test_a_hold_of_a_stream_that_has_ended_is_a_warning() -> None:
    found = of_holds({"mallory": hold("one", epoch=1)}, after_ms=200_000, obeyed=("mallory",), streams=["one"])
    assert found == ["warning: stream one has ended, and its hold on User:mallory ends in 400 s"]


def test_a_hold_that_a_broker_does_not_obey_in_time_is_wrong() -> None:
    assert of_holds({"mallory": hold()}, after_ms=1) == ["ok: on hold: User:mallory"]
    assert of_holds({"mallory": hold()}, after_ms=15_000) == ["wrong: broker 1 does not hold User:mallory"]


def test_a_release_frees_only_its_user_and_only_until_it_runs_out() -> None:
    both = {"mallory": hold(), "alice": hold()}
    found = of_holds(both, after_ms=20_000, obeyed=("alice",), released="User:mallory")
    assert found == ["ok: on hold: User:alice"]
    ran_out = of_holds({"mallory": hold()}, after_ms=20_000, obeyed=("mallory",), released="*", release_ms=10_000)
    assert ran_out == ["ok: on hold: User:mallory"]


def test_only_running_brokers_with_the_authorizer_have_to_obey() -> None:
    topic = MemoryTopic(NOW_MS)
    for number, able in ((1, True), (2, False), (3, True)):
        topic.alive(number, has_authorizer=able)
    topic.write([Change("User:mallory", hold())])
    topic.poll()
    found = [each.found for each in check_holds(topic.state, [1, 2], NOW_MS + 15_000)]
    assert found == ["broker 1 does not hold User:mallory"]


def test_settings_of_topics_that_this_user_may_not_see_are_left_to_the_plugin() -> None:
    setup = Mock(TopicSetup)
    setup.describe.side_effect = TopicError("can't read the settings: DESCRIBE_CONFIGS on it is needed")
    assert told(check_topics(setup)) == [
        ("ok", "3 topics with settings that only the plugin checks: this user may not see them")
    ]


def test_topics_that_are_missing_or_differ_are_named_with_the_remedy() -> None:
    differences = {
        "produce-events": [Difference("cleanup.policy", "compact", "delete")],
        "pid-quota-reports": [Difference("partitions", "3", "1")],
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
        "topic produce-events": ("cleanup.policy is compact, not delete", "pid-quota topics create --alter"),
        "topic pid-quota-reports": (
            "partitions is 3, not 1",
            "delete the topic while nobody uses it, then pid-quota topics create",
        ),
    }


@pytest.mark.parametrize("retention_ms", ["-1", "1800000", "604800000"])
def test_a_retention_that_somebody_chose_is_no_fault_and_stays(retention_ms: str) -> None:
    # What `topics create --alter`, the remedy of other differences, would set on a topic with this retention.
    for plan in plan_topics():
        settings = {**plan.settings, "retention.ms": retention_ms}
        assert compared(plan, plan.partitions or 7, settings).differences == []


def test_only_a_retention_that_is_asked_for_replaces_another() -> None:
    for plan in plan_topics(retention_hours=2):
        (found,) = compared(plan, plan.partitions or 7, {**plan.settings, "retention.ms": "-1"}).differences
        assert found == Difference("retention.ms", "-1", "7200000")


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
