"""What the doctor says of settings, taps and clocks, without a broker."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from unittest.mock import Mock

import msgspec
import pytest

from broker.doctor.cluster_checks import (
    BrokerSettings,
    check_authorizer,
    check_class,
    check_client_quotas,
    check_rights,
    check_topics,
)
from broker.doctor.enforcer_checks import LATE_MS, check_enforcer
from broker.doctor.findings import Finding, Verdict, guarded
from broker.doctor.tap_checks import MAX_CLOCK_SKEW_MS, check_clocks, check_taps
from broker.enforcement.model import Lease, Target
from broker.errors import RequestNotAllowedError
from broker.kafka.own_rights import OwnRights
from broker.kafka.quota_entity import REQUEST_PERCENTAGE, QuotaEntity
from broker.kafka.quotas import ClientQuotas
from broker.kafka.roles import HOLDS as HOLDS_RIGHT
from broker.kafka.roles import Role
from broker.kafka.topic_setup import Difference, TopicOutcome, TopicPlan, TopicSetup
from broker.tap.tap_status import DatedHeartbeat, watch_states
from wire.heartbeat import FilePosition, TapHeartbeat, TopicPosition

JMX = "org.apache.kafka.common.metrics.JmxReporter"
CLASS, HOLDS = f"{JMX},pidquota.Reporter", "pidquota.HoldAuthorizer"
STOCK, RANGER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "org.apache.ranger.RangerKafkaAuthorizer"
NOW_MS = 1_800_000_000_000
LEASE = Lease("1", "User:m", Target("request_percentage", QuotaEntity("m")), NOW_MS, "d", value=0.01)
BEAT = TapHeartbeat(
    timestamp_ms=NOW_MS,
    broker_id=1,
    host="kafka-1",
    tap_id="t",
    source="topic",
    counters={},
    position=TopicPosition("broker-logs", {}),
    behind_bytes=None,
    lag_records=0,
    newest_line_ms=NOW_MS,
    stopped=False,
)


def brokers(*settings: tuple[str | None, str]) -> BrokerSettings:
    """Reporters (None if hidden) and authorizer of each broker."""
    return {
        number: ({} if reporters is None else {"metric.reporters": {"value": reporters}})
        | {"authorizer.class.name": {"value": authorizer}}
        for number, (reporters, authorizer) in enumerate(settings, start=1)
    }


def told(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    return [(each.verdict.value, each.found) for each in findings]


def test_a_broker_without_the_class_is_named_and_one_that_hides_its_settings_too() -> None:
    assert [verdict for verdict, _ in told(check_class(brokers((CLASS, ""), (CLASS, ""))))] == ["ok"]
    (missing,) = check_class(brokers((CLASS, ""), (JMX, "")))
    assert missing.verdict is Verdict.WRONG
    assert "of broker 2 lacks" in missing.found
    assert "load-class --broker-ids 2" in missing.remedy
    assert ("wrong", "the settings of broker 2 are hidden") in told(check_class(brokers((CLASS, ""), (None, ""))))


@pytest.mark.parametrize(
    ("authorizers", "verdict", "remedy"),
    [
        ([HOLDS, HOLDS], "ok", ""),
        ([HOLDS, STOCK], "wrong", HOLDS),
        ([STOCK, STOCK], "warning", HOLDS),
        # On these brokers the class would deny everything, or drop all policies.
        (["", ""], "warning", "docs/authorizer.md"),
        ([RANGER, RANGER], "warning", "docs/authorizer.md"),
    ],
)
def test_holds_are_only_advised_where_the_class_can_replace_the_authorizer(
    authorizers: list[str], verdict: str, remedy: str
) -> None:
    (found,) = check_authorizer(brokers(*((CLASS, each) for each in authorizers)))
    assert found.verdict.value == verdict
    assert remedy in found.remedy
    assert (HOLDS in found.remedy) is (remedy == HOLDS)


@pytest.mark.parametrize(("skew_ms", "side"), [(MAX_CLOCK_SKEW_MS + 1, "ahead of"), (-MAX_CLOCK_SKEW_MS - 1, "behind")])
def test_a_host_whose_clock_is_wrong_is_named_with_the_side(skew_ms: int, side: str) -> None:
    beat = msgspec.structs.replace(BEAT, timestamp_ms=NOW_MS + skew_ms)
    ((verdict, text),) = told(check_clocks([DatedHeartbeat(beat, NOW_MS)]))
    assert (verdict, side in text) == ("wrong", True)
    assert told(check_clocks([DatedHeartbeat(BEAT, NOW_MS)]))[0][0] == "ok"


def test_a_tap_that_lags_or_is_missing_is_wrong_and_what_it_lost_is_a_warning() -> None:
    assert told(check_taps(watch_states([1], {1: BEAT}, NOW_MS)))[0][0] == "ok"
    lagging = msgspec.structs.replace(BEAT, lag_records=2_000_000)
    assert ("wrong", "the tap is 2000000 records behind") in told(check_taps(watch_states([1], {1: lagging}, NOW_MS)))
    file = msgspec.structs.replace(BEAT, source="file", position=FilePosition(1, 0), lag_records=None)
    behind = msgspec.structs.replace(file, behind_bytes=65 * 1024 * 1024)
    assert ("wrong", "the tap is 68157440 bytes behind") in told(check_taps(watch_states([1], {1: behind}, NOW_MS)))
    assert ("wrong", "not watched: never seen") in told(check_taps(watch_states([1, 2], {1: BEAT}, NOW_MS)))
    lost = msgspec.structs.replace(BEAT, counters={"lost_lines": 3})
    assert [verdict for verdict, _ in told(check_taps(watch_states([1], {1: lost}, NOW_MS)))] == ["warning", "ok"]


def test_leases_that_nobody_ends_are_wrong() -> None:
    assert [verdict for verdict, _ in told(check_enforcer([], [], NOW_MS))] == ["ok", "warning"]
    assert [verdict for verdict, _ in told(check_enforcer(["h"], [LEASE], NOW_MS))] == ["ok", "ok"]
    assert [verdict for verdict, _ in told(check_enforcer([], [LEASE], NOW_MS))] == ["ok", "wrong"]
    assert told(check_enforcer([], [], NOW_MS, has_topic=False))[0][0] == "wrong"
    late = replace(LEASE, until_ms=NOW_MS - LATE_MS - 1)
    found = [*check_enforcer(["h"], [late], NOW_MS)]
    assert [each.verdict.value for each in found] == ["wrong", "ok"]
    assert "--release-all" in found[0].remedy


def test_quotas_that_take_precedence_over_a_lease_are_named_except_those_of_a_lease() -> None:
    ours, theirs, other = (QuotaEntity("m", client_id) for client_id in ("ours", "theirs", "other"))
    quotas = Mock(ClientQuotas)
    quotas.describe_all.return_value = {
        **{entity: {REQUEST_PERCENTAGE: 5.0} for entity in (ours, theirs, QuotaEntity("m"))},
        other: {"producer_byte_rate": 5.0},
    }
    quotas.users_with_default_clients.return_value = ["n"]

    found = [text.split(" has its own ")[0] for _, text in told(check_client_quotas(quotas, {ours}))]
    assert found == ["client id theirs of User:m", "each client id of User:n"]

    quotas.users_with_default_clients.return_value = [f"n{number}" for number in range(6)]
    assert told(check_client_quotas(quotas, {ours}))[-1] == ("warning", "2 more of this kind")


def test_topics_that_are_missing_are_named_and_a_remedy_keeps_the_retention_that_somebody_chose() -> None:
    week = Difference("retention.ms", "604800000", "86400000")
    differences = {
        "produce-events": [week, Difference("cleanup.policy", "compact", "delete")],
        "broker-logs": [week],
        "tap-status": [Difference("partitions", "3", "1")],
    }

    def describe(plans: Sequence[TopicPlan]) -> list[TopicOutcome]:
        (name,) = (plan.name for plan in plans)
        action = "missing" if name == "producer-inits" else "differs" if name in differences else "exists"
        return [TopicOutcome(name, action, 1, differences.get(name, []))]

    setup = Mock(TopicSetup)
    setup.describe.side_effect = describe
    found = {each.subject: (each.found, each.remedy) for each in check_topics(setup)}
    assert found == {
        "topics": ("missing, or hidden from this user: producer-inits", "pid-quota topics create"),
        "topic produce-events": (
            "cleanup.policy is compact, not delete",
            "pid-quota topics create --alter --retention-hours 168",
        ),
        "topic tap-status": (
            "partitions is 3, not 1",
            "delete the topic while nobody uses it, then pid-quota topics create",
        ),
    }


@pytest.mark.parametrize("with_holds", [True, False])
def test_the_right_to_hold_is_needed_only_where_brokers_hold(with_holds: bool) -> None:
    own = Mock(OwnRights)
    own.missing.side_effect = lambda needed: [right for right in needed if right is HOLDS_RIGHT]
    found = told(check_rights(own, Role.ENFORCER, "User:e", with_holds=with_holds))
    assert [verdict for verdict, _ in found] == ["wrong" if with_holds else "ok"]


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
