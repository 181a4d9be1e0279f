"""The rules of leases and their targets, one by one."""

from collections.abc import Collection
from dataclasses import replace

import pytest

from broker.cluster.hold_bindings import HOLD
from broker.cluster.quota_entity import QuotaEntity
from broker.enforcer.notices import Notice
from broker.leases.escalation import Escalation
from broker.leases.lease_rules import Action, Holds, Lease, LeaseState, Step, action_of_lease, next_step, open_leases
from broker.leases.lease_targets import ThrottleDecision, ip_targets, is_library_default, user_targets

USER = QuotaEntity("mallory")
LEASE = Lease("l", "User:mallory", USER, "request_percentage", 50.0, 0.01, 2000, "d")


@pytest.mark.parametrize(
    ("state", "found", "now_ms", "step"),
    [
        ("applying", 50.0, 1000, "apply"),
        ("applying", 0.01, 1000, "confirm"),
        ("applying", 7.0, 1000, "relinquish"),
        ("applying", None, 1000, "relinquish"),
        ("applying", 50.0, 2000, "close"),
        ("applying", 0.01, 2000, "restore"),
        ("in_force", 0.01, 1999, "keep"),
        ("in_force", 50.0, 1999, "relinquish"),
        ("in_force", None, 1999, "relinquish"),
        ("in_force", 0.01, 2000, "restore"),
        ("in_force", 50.0, 2000, "close"),
        ("in_force", 7.0, 2000, "relinquish"),
        ("restoring", 0.01, 1000, "restore"),
        ("restoring", 50.0, 1000, "close"),
        ("restoring", 7.0, 1000, "relinquish"),
    ],
)
def test_what_the_broker_holds_decides_the_next_step(
    state: LeaseState, found: float | None, now_ms: int, step: Step
) -> None:
    assert next_step(LEASE.to(state), found, now_ms) == step


def test_leases_are_open_until_a_last_row_whatever_the_clock_said() -> None:
    states: list[LeaseState] = ["applying", "in_force"]
    rows = [action_of_lease(LEASE.to(state), 5000 - at, "", "e") for at, state in enumerate(states)]
    assert open_leases(rows) == {USER: LEASE.to("in_force")}
    assert open_leases(reversed(rows)) == {USER: LEASE.to("in_force")}
    assert open_leases([action_of_lease(LEASE.to("restored"), 0, "", "e"), *rows]) == {}


def test_a_later_hold_replaces_an_earlier_one() -> None:
    def hold(principal: str | None, until_ms: int) -> Action:
        return Action(0, "hold", principal, until_ms, "")

    holds = Holds.of([hold("User:a", 100), hold(None, 50), hold("User:a", 10)])
    assert holds.covers("User:a", 49)
    assert not holds.covers("User:a", 50)


def decision(**client_ids: int) -> ThrottleDecision:
    return ThrottleDecision("d", "User:mallory", 0, 60_000, 100.0, 10, client_ids)


def narrowed(client_ids: dict[str, int], **more: Collection[str]) -> list[str | None]:
    targets = user_targets(ThrottleDecision("d", "User:mallory", 0, 1, None, 1, client_ids), narrow=True, **more)
    return [entity.client_id for entity in targets.entities]


class TestNarrowing:
    def test_takes_the_fewest_client_ids_that_make_up_95_percent(self) -> None:
        assert narrowed({"a": 60, "b": 36, "c": 4}) == ["a", "b"]
        assert narrowed({"a": 94, "b": 6}) == ["a", "b"]
        assert narrowed({"a": 95, "b": 5}) == ["a"]

    def test_five_client_ids_are_few_and_six_are_many(self) -> None:
        assert narrowed(dict.fromkeys("abcde", 1)) == list("abcde")
        assert narrowed(dict.fromkeys("abcdef", 1)) == [None]

    @pytest.mark.parametrize(
        "name", ["other", "rdkafka", "producer-1", "producer-42", "confluent-kafka-python", "", "sarama"]
    )
    def test_a_name_that_anybody_may_have_is_not_taken(self, name: str) -> None:
        assert narrowed({name: 50, "a": 50}) == [None]

    def test_a_name_that_may_have_been_cut_is_not_taken(self) -> None:
        assert narrowed({"x" * 256: 1}) == [None]
        assert narrowed({"x" * 255: 1}) == ["x" * 255]

    def test_unless_it_is_among_the_last_five_percent(self) -> None:
        assert narrowed({"a": 95, "other": 5}) == ["a"]

    def test_a_name_that_is_shared_by_the_operator_s_word_is_not_taken(self) -> None:
        assert narrowed({"a": 1}, shared=["a"]) == [None]

    def test_without_client_ids_it_is_the_user(self) -> None:
        assert narrowed({}) == [None]

    def test_with_five_names_used_before_a_sixth_is_not_taken_but_those_are(self) -> None:
        assert narrowed({"f": 1}, written=list("abcde")) == [None]
        assert narrowed({"e": 1}, written=list("abcde")) == ["e"]

    def test_can_be_turned_off(self) -> None:
        assert user_targets(decision(a=1), narrow=False).entities == (USER,)


class TestEscalation:
    """Seconds: a hold from 0 to 60, and decisions of a minute."""

    @pytest.fixture
    def rules(self) -> Escalation:
        rules = Escalation()
        observe(rules, held(0, 60))
        return rules

    @pytest.mark.parametrize("broker_id", [None, 1])
    def test_more_refused_ids_under_one_hold_escalate(self, rules: Escalation, broker_id: int | None) -> None:
        rules.receive([refused(10, 100, broker_id), refused(50, 101, broker_id)])
        assert rules.escalated.keys() == {"User:mallory"}

    def test_what_comes_before_producers_that_had_an_id_have_sent_is_not_compared(self, rules: Escalation) -> None:
        rules.receive([refused(9.999, 100), refused(50, 200)])
        assert rules.escalated == {}

    def test_a_hold_that_is_about_to_be_extended_reaches_to_the_end_of_its_decision(self, rules: Escalation) -> None:
        rules.receive([refused(50, 100), refused(100, 200)])
        assert rules.escalated.keys() == {"User:mallory"}

    def test_a_hold_that_has_ended_counts_until_its_decisions_are_past(self, rules: Escalation) -> None:
        rules.receive([refused(20, 100)])
        observe(rules)
        rules.receive([refused(55, 200)])
        assert rules.escalated.keys() == {"User:mallory"}

    def test_once_they_are_past_all_is_forgotten(self, rules: Escalation) -> None:
        rules.receive([refused(20, 100), refused(50, 200)])
        rules.observe([], pending=())
        assert rules.escalated == {}
        rules.receive([refused(55, 300), refused(56, 400)])
        assert rules.escalated == {}

    def test_another_hold_begins_anew(self, rules: Escalation) -> None:
        rules.receive([refused(20, 100)])
        observe(rules, held(200, 260))
        rules.receive([refused(230, 200)])
        assert rules.escalated == {}
        rules.receive([refused(240, 300)])
        assert "(200, then 300)" in rules.escalated["User:mallory"]

    def test_a_hold_that_is_renewed_goes_on(self, rules: Escalation) -> None:
        rules.receive([refused(20, 100)])
        observe(rules, held(50, 110))
        rules.receive([refused(100, 200)])
        assert rules.escalated.keys() == {"User:mallory"}

    @pytest.mark.parametrize("state", ["applying", "restoring"])
    def test_a_hold_that_may_not_be_in_force_does_not_count(self, state: LeaseState) -> None:
        rules = Escalation()
        observe(rules, held(0, 60).to(state))
        rules.receive([refused(20, 100), refused(50, 200)])
        assert rules.escalated == {}

    def test_a_client_quota_is_none(self) -> None:
        rules = Escalation()
        observe(rules, replace(held(0, 60), quota_key="request_percentage"))
        rules.receive([refused(20, 100), refused(50, 200)])
        assert rules.escalated == {}


def held(since_s: float, until_s: float) -> Lease:
    since_ms, until_ms = round(1000 * since_s), round(1000 * until_s)
    entity = QuotaEntity("mallory", is_hold=True)
    return Lease("h", "User:mallory", entity, HOLD, None, until_ms, until_ms, "d", "in_force", since_ms)


def refused(at_s: float, refused_pids: int, broker_id: int | None = None) -> ThrottleDecision:
    at_ms = round(1000 * at_s)
    return ThrottleDecision("d", "User:mallory", at_ms, at_ms + 60_000, refused_pids=refused_pids, broker_id=broker_id)


def observe(rules: Escalation, *leases: Lease) -> None:
    rules.observe(leases, pending=["User:mallory"])


@pytest.mark.parametrize("name", ["orders", "rdkafka-orders", "producer-app", "kafka-importer", "my-producer-1"])
def test_a_name_somebody_chose_is_no_library_default(name: str) -> None:
    assert not is_library_default(name)


def test_only_hosts_that_a_principal_has_to_itself_are_taken() -> None:
    hosts = {"10.0.0.1": {"User:mallory"}, "10.0.0.2": {"User:mallory", "User:alice"}, "10.0.0.3": {"User:alice"}}
    assert ip_targets(decision(), hosts).entities == (QuotaEntity(ip="10.0.0.1"),)
    assert ip_targets(decision(), {}).entities == ()


def test_a_notice_tells_who_what_until_when_and_why() -> None:
    notice = Notice.of(LEASE, 0, "throttled", "12 PIDs refused")
    for line in (notice.line(), notice.line(dry_run=True)):
        for part in (
            "User:mallory",
            "request_percentage 0.01, was 50",
            "until 1970-01-01T00:00:02.000Z",
            "12 PIDs",
            "[decision d]",
        ):
            assert part in line
    assert "dry run" in notice.line(dry_run=True)
    fields = notice.record()
    assert (fields["principal"], fields["new_value"], fields["previous_value"]) == ("User:mallory", 0.01, 50.0)
