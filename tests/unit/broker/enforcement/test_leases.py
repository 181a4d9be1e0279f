from collections.abc import Collection
from dataclasses import replace

import pytest

from broker.enforcement.escalation import Escalation
from broker.enforcement.levers.base import StepName, TargetLimits
from broker.enforcement.levers.client_quota import next_step
from broker.enforcement.levers.request_percentage import is_library_default, user_targets
from broker.enforcement.model import (
    MAX_LEASE_MS,
    Lease,
    LeaseRecord,
    LeaseState,
    LeverName,
    ReleaseOrder,
    Releases,
    Target,
    ThrottleDecision,
    may_touch,
    open_leases,
)
from broker.enforcement.notices import Notice
from broker.kafka.quota_entity import QuotaEntity

USER = Target("request_percentage", QuotaEntity("mallory"))
LEASE = Lease("l", "User:mallory", USER, 2000, "d", value=0.01, previous=50.0)


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
def test_the_value_on_the_broker_decides_the_next_step(
    state: LeaseState, found: float | None, now_ms: int, step: StepName
) -> None:
    assert next_step(replace(LEASE, state=state), found, now_ms).name == step


@pytest.mark.parametrize(("found", "vanished"), [(None, True), (7.0, False)])
def test_a_value_that_somebody_removed_is_told_from_one_that_somebody_set(found: float | None, vanished: bool) -> None:
    step = next_step(LEASE.to("in_force"), found, 1000)
    assert (step.name, step.vanished) == ("relinquish", vanished)


class TestOpenLeases:
    def test_are_open_until_a_last_record_whatever_the_clock_said(self) -> None:
        records = history("applying", "in_force")
        assert open_leases(records) == {USER: records[-1].lease}
        assert open_leases(reversed(records)) == {USER: records[-1].lease}
        assert open_leases([*history("restored"), *records]) == {}

    def test_have_the_end_that_was_set_last_also_if_it_is_the_sooner_one(self) -> None:
        shortened = LEASE.to("in_force").ending(1500, 1000)
        records = [*history("applying", "in_force"), LeaseRecord(0, shortened, "")]
        assert open_leases(reversed(records))[USER].until_ms == 1500


def history(*states: LeaseState) -> list[LeaseRecord]:
    """Records of a clock that runs backwards."""
    lease, records = LEASE, list[LeaseRecord]()
    for at, state in enumerate(states):
        lease = lease.to(state) if state != lease.state else lease
        records.append(LeaseRecord(5000 - at, lease, ""))
    return records


@pytest.mark.parametrize("lease", [replace(LEASE, until_ms=100_000, set_ms=50_000), LEASE.ending(100_000, 50_000)])
def test_a_lease_is_due_at_its_end_or_once_the_clock_is_set_back(lease: Lease) -> None:
    assert not lease.is_due(45_000)
    assert lease.is_due(44_999)
    assert lease.is_due(100_000)


def test_a_later_release_order_replaces_an_earlier_one() -> None:
    orders = [ReleaseOrder(0, "User:a", 100), ReleaseOrder(2, "User:a", 10), ReleaseOrder(1, None, 50)]
    releases = Releases(orders)
    assert releases.covers("User:a", 49)
    assert not releases.covers("User:a", 50)


@pytest.mark.parametrize(
    ("decided_ms", "until_ms", "end_ms"),
    [
        (1_000_000, 1_060_000, 1_060_000),
        (1_030_000, 1_090_000, 1_060_000),
        (1_000_000, 100_000_000, 1_000_000 + MAX_LEASE_MS),
        (900_000, 100_000_000, 900_000 + MAX_LEASE_MS),
    ],
    ids=["as decided", "dated ahead", "too long", "too long and not new"],
)
def test_a_decision_lasts_no_longer_than_it_says_and_no_longer_than_the_longest_lease(
    decided_ms: int, until_ms: int, end_ms: int
) -> None:
    found = ThrottleDecision("d", "User:m", decided_ms, until_ms).received(1_000_000)
    assert found.throttled_until_ms == end_ms


@pytest.mark.parametrize("never", ["etl", "User:etl"])
def test_a_principal_of_another_type_shares_the_quota_of_the_user_of_its_name(never: str) -> None:
    assert not may_touch("User:etl", [never])
    assert not may_touch("ServiceAccount:etl", [never])


def decision(**client_ids: int) -> ThrottleDecision:
    return ThrottleDecision("d", "User:mallory", 0, 60_000, 100.0, 10, client_ids)


def narrowed(
    client_ids: dict[str, int], shared: Collection[str] = (), written: Collection[str] = ()
) -> list[str | None]:
    limits = TargetLimits(shared_client_ids=shared, written=written)
    targets = user_targets(ThrottleDecision("d", "User:mallory", 0, 1, None, 1, client_ids), limits)
    return [target.entity.client_id for target in targets.targets]


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
        assert user_targets(decision(a=1), TargetLimits(narrow=False)).targets == (USER,)


class TestEscalation:
    """Seconds: a lease from 0 to 60, and decisions of a minute."""

    @pytest.fixture
    def rules(self) -> Escalation:
        rules = Escalation()
        observe(rules, in_force(0, 60))
        return rules

    def test_more_refused_ids_under_one_lease_escalate(self, rules: Escalation) -> None:
        rules.receive([refused(10, 100), refused(50, 101)])
        assert rules.levels().keys() == {"User:mallory"}

    def test_decisions_in_the_first_ten_seconds_of_a_lease_are_not_compared(self, rules: Escalation) -> None:
        rules.receive([refused(9.999, 100), refused(50, 200)])
        assert rules.levels() == {}

    def test_a_lease_that_is_about_to_be_extended_reaches_to_the_end_of_its_decision(self, rules: Escalation) -> None:
        rules.receive([refused(50, 100), refused(100, 200)])
        assert rules.levels().keys() == {"User:mallory"}

    def test_a_lease_that_has_ended_counts_until_its_decisions_are_past(self, rules: Escalation) -> None:
        rules.receive([refused(20, 100)])
        observe(rules)
        rules.receive([refused(55, 200)])
        assert rules.levels().keys() == {"User:mallory"}

    def test_once_they_are_past_all_is_forgotten(self, rules: Escalation) -> None:
        rules.receive([refused(20, 100), refused(50, 200)])
        rules.observe([], pending=())
        assert rules.levels() == {}
        rules.receive([refused(55, 300), refused(56, 400)])
        assert rules.levels() == {}

    def test_another_lease_begins_anew(self, rules: Escalation) -> None:
        rules.receive([refused(20, 100)])
        observe(rules, in_force(200, 260))
        rules.receive([refused(230, 200)])
        assert rules.levels() == {}
        rules.receive([refused(240, 300)])
        assert "(200, then 300)" in rules.levels()["User:mallory"].why

    def test_a_lease_that_is_renewed_goes_on(self, rules: Escalation) -> None:
        rules.receive([refused(20, 100)])
        observe(rules, in_force(50, 110))
        rules.receive([refused(100, 200)])
        assert rules.levels().keys() == {"User:mallory"}

    @pytest.mark.parametrize("state", ["applying", "restoring"])
    def test_a_lease_that_may_not_be_in_force_does_not_count(self, state: LeaseState) -> None:
        rules = Escalation()
        observe(rules, replace(in_force(0, 60), state=state))
        rules.receive([refused(20, 100), refused(50, 200)])
        assert rules.levels() == {}

    @pytest.mark.parametrize("lever", ["hold", "connection_creation_rate", "request_percentage"])
    def test_a_lease_of_any_lever_counts(self, lever: LeverName) -> None:
        rules = Escalation()
        observe(rules, replace(in_force(0, 60), target=Target(lever, QuotaEntity("mallory"))))
        rules.receive([refused(20, 100), refused(50, 200)])
        assert rules.levels()["User:mallory"].level == 1

    def test_refusals_that_continue_under_the_next_lever_bring_the_one_after_it(self, rules: Escalation) -> None:
        rules.receive([refused(20, 100), refused(50, 200)])
        # The next lever gets ten seconds, too.
        rules.receive([refused(59, 300), refused(61, 400)])
        assert rules.levels()["User:mallory"].level == 1
        rules.receive([refused(70, 500)])
        assert rules.levels()["User:mallory"].level == 2


def in_force(since_s: float, until_s: float) -> Lease:
    since_ms, until_ms = round(1000 * since_s), round(1000 * until_s)
    target = Target("hold", QuotaEntity("mallory"))
    return Lease("h", "User:mallory", target, until_ms, "d", "in_force", since_ms)


def refused(at_s: float, refused_pids: int) -> ThrottleDecision:
    at_ms = round(1000 * at_s)
    return ThrottleDecision("d", "User:mallory", at_ms, at_ms + 60_000, refused_pids=refused_pids)


def observe(rules: Escalation, *leases: Lease) -> None:
    rules.observe(leases, pending=["User:mallory"])


@pytest.mark.parametrize("name", ["orders", "rdkafka-orders", "producer-app", "kafka-importer", "my-producer-1"])
def test_a_name_somebody_chose_is_no_library_default(name: str) -> None:
    assert not is_library_default(name)


def test_a_notice_tells_who_what_until_when_and_why() -> None:
    notice = Notice.of(LEASE, 0, "throttled", "12 PIDs refused")
    for line in (notice.line(), notice.line(dry_run=True)):
        for part in (
            "User:mallory",
            "request_percentage on user 'mallory': 0.01, was 50",
            "until 1970-01-01T00:00:02.000Z",
            "12 PIDs",
            "[decision d]",
        ):
            assert part in line
    assert "dry run" in notice.line(dry_run=True)
    fields = notice.record()
    assert (fields["principal"], fields["new_value"], fields["previous_value"]) == ("User:mallory", 0.01, 50.0)
