"""The rules seen from outside: events in, decisions and counts out."""

import pytest

from quota.config import QuotaConfig
from quota.limits import UNLIMITED, Limit
from state.events import CHARGED, LEARNING, Deployment, Events
from state.learning import Learning
from state.ledger import Ledger
from tests.kits.ledger_kit import Principal, actions, admitted, events_at, refused

MINUTE_MS = 60_000
QUANTUM_MS = 15 * MINUTE_MS
HOUR_MS = 60 * MINUTE_MS
START_MS = 1_790_000_000_000 // HOUR_MS * HOUR_MS
HUNDRED = Limit(100.0, "user")


def principal(config: QuotaConfig | None = None, salt: int = 0, learn_until_ms: int = 0) -> Principal:
    return Principal(Deployment(config or QuotaConfig(), salt, learn_until_ms), START_MS, HUNDRED)


@pytest.fixture
def mallory() -> Principal:
    return principal(salt=0x5DEECE66D5DEECE6)


def test_a_flood_is_admitted_up_to_the_burst_and_owes_an_hour_of_tokens(mallory: Principal) -> None:
    outcome = mallory.produces(range(1000), 0)

    assert (admitted(outcome), set(actions(outcome))) == (101, {"THROTTLE"})
    assert refused(outcome) == pytest.approx(899, rel=0.1)
    assert (outcome.metrics[-1].tokens, outcome.metrics[-1].throttle_time_ms) == (-100, HOUR_MS)


def test_a_refused_pid_takes_a_token_and_is_known_on_its_retry(mallory: Principal) -> None:
    mallory.produces(range(101), 0)

    first = mallory.produces([5000], 1000)
    retry = mallory.produces([5000], 20_000)

    assert (refused(first), first.metrics[-1].tokens, first.metrics[-1].active_pids) == (1, -2, 102)
    assert (retry.content, retry.decisions) == (first.content, ())


def test_a_pid_beyond_the_debt_takes_no_token_and_is_refused_again_until_a_token_has_come_back(
    mallory: Principal,
) -> None:
    mallory.produces(range(200), 0)

    beyond = mallory.produces([5000], 1000)
    retry = mallory.produces([5000], 2000)
    later = mallory.produces([5000], 40_000)

    assert (beyond.metrics[-1].tokens, beyond.metrics[-1].active_pids) == (-100, 200)
    assert retry.content == beyond.content
    assert later.metrics[-1].tokens == pytest.approx(-101 + 40 / 36)
    assert later.metrics[-1].active_pids == 201
    assert later.metrics[-1].new_pids_window == 201


def test_after_its_debt_is_paid_a_principal_gets_new_pids_again(mallory: Principal) -> None:
    mallory.produces(range(1000), 0)

    before = mallory.produces([5000], HOUR_MS - 10_000)
    after = mallory.produces([6000], HOUR_MS + MINUTE_MS)

    assert (refused(before), admitted(before)) == (1, 0)
    assert (refused(after), admitted(after)) == (0, 1)


@pytest.mark.parametrize(("seconds", "tokens"), [(60, -1), (720, -20), (7200, -200)])
def test_the_longest_throttle_says_how_much_a_flood_owes(seconds: float, tokens: int) -> None:
    mallory = principal(QuotaConfig(max_throttle_seconds=seconds))

    outcome = mallory.produces(range(1000), 0)

    assert (admitted(outcome), outcome.metrics[-1].tokens) == (101, tokens)


def test_a_quota_that_is_lowered_reduces_the_debt_with_it(mallory: Principal) -> None:
    mallory.produces(range(1000), 0)

    lowered = mallory.produces(range(2000, 2100), 20_000, Limit(10.0, "user"))

    # Ten tokens are owed, but for what came back in the second tick; the debt is full again only with a whole token.
    assert lowered.metrics[-1].tokens == pytest.approx(-10)
    assert lowered.metrics[-1].throttle_time_ms == HOUR_MS


def test_a_known_pid_costs_nothing_however_often_it_produces(mallory: Principal) -> None:
    mallory.produces([1], 0)

    for minute in range(1, 300):
        mallory.produces([1], minute * MINUTE_MS)
    outcome = mallory.produces([1], 300 * MINUTE_MS)

    assert outcome.metrics[-1].active_pids == 1
    assert outcome.metrics[-1].tokens == 100.0


def test_a_pid_is_remembered_a_window_after_it_was_last_seen_and_forgotten_a_quantum_later(
    mallory: Principal,
) -> None:
    mallory.produces([1], QUANTUM_MS - 1)

    assert admitted(mallory.produces([1], QUANTUM_MS - 1 + HOUR_MS)) == 0

    other = principal()
    other.produces([1], 0)
    assert admitted(other.produces([1], HOUR_MS + QUANTUM_MS)) == 1


def test_a_ledger_without_quota_stops_growing_at_its_cap_and_says_so() -> None:
    outcome = principal(QuotaConfig(max_uncharged_bytes=4096)).produces(range(20_000), 0, UNLIMITED)

    assert outcome.metrics[-1].saturated
    # The cap, the sketch of what is left out, and a few counts.
    assert outcome.metrics[-1].state_bytes < 4096 + 1024
    assert outcome.metrics[-1].new_pids_window == pytest.approx(20_000, rel=0.1)


def test_pids_seen_while_learning_are_free_and_later_ones_are_charged() -> None:
    mallory = principal(learn_until_ms=START_MS + HOUR_MS)

    learning = mallory.produces(range(500), 0)
    known = mallory.produces(range(500), HOUR_MS)
    new = mallory.produces([1000], HOUR_MS)

    assert (refused(learning), learning.metrics[-1].phase, learning.metrics[-1].tokens) == (0, "learning", 100.0)
    assert (refused(known), known.metrics[-1].active_pids) == (0, 500)
    assert (admitted(new), new.metrics[-1].phase) == (1, "enforcing")


def test_a_throttle_is_renewed_when_it_doubles_and_once_a_minute_while_pids_are_refused(mallory: Principal) -> None:
    outcomes = [mallory.produces(range(s * 1000, s * 1000 + 200), s * 1000) for s in range(181)]

    decided = [decision for outcome in outcomes for decision in outcome.decisions]
    assert [decision.action for decision in decided] == ["THROTTLE"] * 9
    assert [decision.decided_at_ms - START_MS for decision in decided] == [*range(6), 60_000, 120_000, 180_000]
    tokens = [decision.tokens for decision in decided]
    assert tokens == pytest.approx([-2, -4, -8, -16, -32, -64, -99.5, -99.5, -99.5], abs=0.5)
    assert len({decision.decision_id for decision in decided}) == 9


@pytest.mark.parametrize("window_seconds", [600, 3600])
@pytest.mark.parametrize("repeat_s", [10, 30])
def test_refused_pids_that_ask_once_per_repeat_interval_keep_their_throttle(window_seconds: int, repeat_s: int) -> None:
    # given an empty bucket, and 40 PIDs in constant use, each of which asks at a moment of its own
    mallory, quota = principal(QuotaConfig(window_seconds=window_seconds)), Limit(window_seconds / 60, "user")
    mallory.produces(range(1000, 1200), 0, quota)
    moments = {pid: pid * 7919 % (repeat_s * 1000) for pid in range(40)}
    asks = sorted(
        (moment + n * repeat_s * 1000, pid) for pid, moment in moments.items() for n in range(900 // repeat_s)
    )

    outcomes = [mallory.produces([pid], at_ms, quota) for at_ms, pid in asks]

    assert {decision.action for outcome in outcomes for decision in outcome.decisions} == {"THROTTLE"}


@pytest.mark.parametrize("window_seconds", [3600, 86_400])
def test_a_renewal_never_ends_a_throttle_earlier_wherever_in_a_tick_either_is_decided(window_seconds: int) -> None:
    config = QuotaConfig(window_seconds=window_seconds, metrics_interval_seconds=60)
    mallory, twenty = principal(config), Limit(20.0, "user")
    tick_ms = config.quantum_ms // 90
    times = [tick_ms - 1, *range(2 * tick_ms, 15 * tick_ms, tick_ms)]

    throttles = [
        decision
        for number, at_ms in enumerate(times)
        for decision in mallory.produces(range(100 * number, 100 * number + 100), at_ms, twenty).decisions
    ]

    assert len(throttles) > 5
    ends = [each.throttled_until_ms for each in throttles]
    assert ends == sorted(ends)
    assert ends[-1] == START_MS + config.window_ms
    decided = [each.decided_at_ms for each in throttles]
    assert decided == sorted(set(decided))
    assert all(each.decided_at_ms + each.throttle_time_ms == each.throttled_until_ms for each in throttles)


@pytest.mark.parametrize("later_ms", [0, 5])
def test_a_renewal_in_the_same_tick_is_dated_after_the_throttle_that_it_renews(
    mallory: Principal, later_ms: int
) -> None:
    mallory.produces(range(101), 0)
    first = mallory.produces([1000], 9000)

    # Events of a tick may be out of order.
    renewed = mallory.produces(range(2000, 2002), later_ms)

    (before,), (after,) = first.decisions, renewed.decisions
    assert (before.decided_at_ms, after.decided_at_ms) == (START_MS + 9000, START_MS + 9001)
    assert after.throttled_until_ms > before.throttled_until_ms


def test_the_release_is_dated_when_the_throttle_ran_out(mallory: Principal) -> None:
    throttled = mallory.produces(range(200), 0).decisions[-1]

    later = mallory.produces([0], HOUR_MS)

    assert actions(later) == ["RELEASE"]
    assert later.decisions[0].decided_at_ms == throttled.throttled_until_ms


def test_a_pid_refused_before_a_release_that_has_come_starts_no_second_throttle(mallory: Principal) -> None:
    throttled = mallory.produces(range(102), 0)
    released = mallory.produces([0], 2 * MINUTE_MS)

    older = mallory.produces([1001], 30_000)
    newer = mallory.produces(range(2000, 2010), 3 * MINUTE_MS)

    assert [actions(each) for each in (throttled, released, older)] == [["THROTTLE"], ["RELEASE"], []]
    assert [refused(each) for each in (throttled, older)] == [1, 1]
    assert set(actions(newer)) == {"THROTTLE"}
    assert newer.decisions[0].decision_id != throttled.decisions[0].decision_id
    assert newer.decisions[-1].evidence.refused_pids == len(newer.decisions[-1].evidence.sample_pids)


def test_a_decision_names_the_clients_whose_pids_were_refused(mallory: Principal) -> None:
    mallory.produces(range(101), 0)

    outcome = mallory.produces([1001, 1002, 1003], 1000, client="loop")

    assert outcome.decisions[0].evidence.client_ids == {"loop": 3}
    assert outcome.decisions[0].evidence.sample_pids == (1001, 1002, 1003)


def test_a_decision_names_the_addresses_that_refused_pids_came_from(mallory: Principal) -> None:
    mallory.produces(range(101), 0, address="10.0.0.1")

    mallory.produces([1001, 1002], 1000, address="10.0.0.7")
    mallory.produces([1003], 1000, address="2001:db8::7")
    released = mallory.produces([0], 10 * MINUTE_MS)

    assert released.decisions[0].evidence.addresses == {"10.0.0.7": 2, "2001:db8::7": 1}


@pytest.mark.parametrize("later_ms", [1000, 1001, 11_000])
def test_a_pid_that_is_refused_again_counts_for_the_client_and_the_address_that_it_was_refused_from_first(
    mallory: Principal, later_ms: int
) -> None:
    mallory.produces(range(101), 0)
    mallory.produces([1001], 1000, client="app", address="10.0.0.7")

    mallory.produces([1001], later_ms, client="job", address="10.0.0.8")
    released = mallory.produces([0], 10 * MINUTE_MS)

    evidence = released.decisions[0].evidence
    assert (evidence.client_ids, evidence.addresses) == ({"app": 1}, {"10.0.0.7": 1})


def test_addresses_beyond_the_first_ones_are_counted_as_other_and_do_not_grow_the_state(mallory: Principal) -> None:
    unaddressed, sizes = principal(salt=mallory.deployment.salt), []
    for each in (mallory, unaddressed):
        each.produces(range(101), 0)
    for number in range(80):
        mallory.produces([1000 + number], 1000, address=f"10.0.0.{number}")
        unaddressed.produces([1000 + number], 1000)
        sizes.append(len(mallory.stored or b"") - len(unaddressed.stored or b""))

    released = mallory.produces([0], HOUR_MS)

    addresses = released.decisions[0].evidence.addresses
    assert (len(addresses), addresses["10.0.0.14"], addresses["other"]) == (16, 1, 65)
    assert len(set(sizes[15:])) == 1


def test_a_later_throttle_names_pids_that_an_earlier_one_has_named() -> None:
    # given PIDs that take no token, because the debt is less than two tokens
    mallory = principal(QuotaConfig(max_throttle_seconds=60))
    mallory.produces(range(101), 0)
    first = mallory.produces([1001, 1002], 1000, client="loop")
    released = mallory.produces([0], 10 * MINUTE_MS)

    # Eleven minutes have brought 18 tokens back.
    again = mallory.produces([*range(2000, 2018), 1001, 1002], 11 * MINUTE_MS, client="loop")

    assert [actions(outcome) for outcome in (first, released, again)] == [["THROTTLE"], ["RELEASE"], ["THROTTLE"]]
    assert again.decisions[0].evidence == first.decisions[0].evidence
    assert again.decisions[0].evidence.sample_pids == (1001, 1002)


def test_clients_beyond_the_first_ones_are_counted_as_other(mallory: Principal) -> None:
    mallory.produces(range(101), 0)
    mallory.produces([999], 500, client="first")
    for number in range(40):
        mallory.produces([1000 + number], 1000, client=f"rotating-{number}")

    outcome = mallory.produces([0], HOUR_MS)

    clients = outcome.decisions[0].evidence.client_ids
    assert len(clients) == 16
    assert clients["other"] == 26


def test_late_events_are_remembered_and_neither_charged_nor_refused(mallory: Principal) -> None:
    mallory.produces(range(101), 20 * MINUTE_MS)

    late = mallory.produces([7777], 10 * MINUTE_MS)
    on_time = mallory.produces([7777], 20 * MINUTE_MS)

    assert (late.metrics[-1].late_pids, refused(late)) == (1, 0)
    assert refused(on_time) == 0


def test_a_pid_behind_the_clock_that_is_not_late_takes_a_token_that_has_come_back_since() -> None:
    pids, at_ms = [*range(40), 50, 60], [START_MS] * 40 + [START_MS + 10_000, START_MS]
    events = Events(pids, at_ms, [("app", "")] * 42, [CHARGED] * 42)

    outcome = principal(QuotaConfig(burst_windows=0.01), salt=5).takes(events, Limit(3600.0, "user"))

    assert (admitted(outcome), refused(outcome)) == (37 + 2, 3)


def test_a_late_event_of_a_known_pid_extends_how_long_it_is_remembered(mallory: Principal) -> None:
    mallory.produces([1], 0)
    mallory.produces([2], HOUR_MS)
    mallory.produces([1], 2 * QUANTUM_MS)

    outcome = mallory.produces([1], 6 * QUANTUM_MS)

    assert admitted(outcome) == 0


def test_an_event_late_by_more_than_is_remembered_is_counted_and_changes_nothing(mallory: Principal) -> None:
    before = mallory.produces([1], 3 * HOUR_MS)

    late = mallory.produces([2], 0)

    assert (late.metrics[-1].late_pids, late.content) == (1, before.content)


def test_known_and_learned_pids_pass_in_the_very_tick_that_refuses_others(mallory: Principal) -> None:
    mallory.produces([7], 0)
    pids, time_ms = [*range(1000, 1103), 7, 8], START_MS + QUANTUM_MS
    kinds = [CHARGED] * (len(pids) - 1) + [LEARNING]

    outcome = mallory.takes(Events(pids, [time_ms] * len(pids), [("app", "")] * len(pids), kinds))
    again = mallory.produces([7, 8], QUANTUM_MS + 20_000)

    assert (outcome.metrics[-1].admitted_pids, outcome.metrics[-1].refused_pids) == (101, 2)
    assert again.content == outcome.content


def test_false_positives_of_a_flood_do_not_add_up_over_quanta() -> None:
    mallory, flood, active = principal(QuotaConfig(false_positive_rate=0.01)), 10_000, []
    for quantum in range(24):
        pids = range(quantum * flood, (quantum + 1) * flood)
        active.append(mallory.produces(pids, quantum * QUANTUM_MS).metrics[-1].active_pids)

    live_quanta = 5
    assert max(active) <= 101 + live_quanta * (25 + 1.5 * 0.01 * flood)


def test_a_raised_quota_refills_from_the_next_tick_on(mallory: Principal) -> None:
    mallory.produces(range(102), 0)

    mallory.produces([0], 10_000, Limit(3600.0, "user"))
    raised = mallory.produces([9001], 20_000, Limit(3600.0, "user"))

    # Exhausted by two; ten seconds at 100 an hour, ten at one a second, and one is taken.
    assert raised.metrics[-1].tokens == pytest.approx(-2 + 10 / 36 + 10 - 1)


@pytest.mark.parametrize(("before", "after", "tokens"), [(1.0, 100.0, 0.0), (100.0, 1.0, 1.0), (100.0, 400.0, 100.0)])
def test_time_that_passed_before_a_quota_changed_refills_at_the_quota_of_then(
    mallory: Principal, before: float, after: float, tokens: float
) -> None:
    mallory.produces(range(2), 0, Limit(before, "user"))

    changed = mallory.produces([0], HOUR_MS - 20_000, Limit(after, "user"))

    # The bucket as of a tick before the hour, under the quota before; never more than the burst of the new one.
    assert changed.metrics[-1].tokens == pytest.approx(tokens, abs=0.01)


def test_a_raised_quota_lets_a_throttle_end_when_the_bucket_recovers_under_it(mallory: Principal) -> None:
    mallory.produces(range(10), 0, Limit(3.0, "user"))

    raised = mallory.produces([0], 10_000, Limit(200.0, "user"))
    over = mallory.produces([0], 80_000, Limit(200.0, "user"))

    # Three tokens are missing but for what ten seconds brought back at 3 an hour.
    missing_ms = 18_000 * (3 - 3 / 360)
    (sooner,), (release,) = raised.decisions, over.decisions
    assert (sooner.action, sooner.reason, sooner.quota) == ("THROTTLE", "quota_changed", 200.0)
    assert sooner.decided_at_ms == START_MS + 10_000
    assert sooner.throttled_until_ms == pytest.approx(START_MS + 10_000 + missing_ms, abs=1)
    assert sooner.evidence.refused_pids == 6
    assert (release.action, release.reason) == ("RELEASE", "throttle_ended")
    assert release.decided_at_ms == sooner.throttled_until_ms
    assert mallory.produces([9001], 81_000, Limit(200.0, "user")).decisions == ()


def test_a_quota_that_is_removed_ends_a_throttle_at_once(mallory: Principal) -> None:
    mallory.produces(range(10), 0, Limit(3.0, "user"))

    removed = mallory.produces([0], 12_345, UNLIMITED)

    (release,) = removed.decisions
    assert (release.action, release.reason, release.quota) == ("RELEASE", "quota_changed", None)
    assert release.decided_at_ms == release.throttled_until_ms == START_MS + 12_345
    assert [row.throttle_time_ms for row in removed.metrics] == [0]


def test_a_throttle_whose_bucket_has_recovered_ends_at_once_when_its_quota_is_raised(mallory: Principal) -> None:
    mallory.produces(range(3602), 0, Limit(3600.0, "user"))

    raised = mallory.produces([0], 50_000, Limit(3601.0, "user"))

    # The bucket recovered after 2 s; the rest of the 60 s is the minimum, which a raised quota does not ask for.
    assert [(each.action, each.reason) for each in raised.decisions] == [("RELEASE", "quota_changed")]


@pytest.mark.parametrize("repeats_ms", [[], [84]], ids=["its repeat is left out", "its repeat is given"])
def test_a_pid_refused_in_the_tick_of_a_release_starts_a_throttle_after_the_release(repeats_ms: list[int]) -> None:
    ledger = Ledger("User:mallory", Deployment(QuotaConfig(max_throttle_seconds=60)))

    def process(at_ms: dict[int, list[int]], burst: float) -> list[tuple[str, int]]:
        pids, times_ms = zip(*[(pid, START_MS + ms) for pid, each in at_ms.items() for ms in each], strict=True)
        count = len(pids)
        events = Events(list(pids), list(times_ms), [("", "")] * count, [False] * count)
        outcome = ledger.process(events, Limit(20.0, "user", producer_ids_burst=burst))
        return [(each.action, each.decided_at_ms - START_MS) for each in outcome.decisions]

    # given
    assert process({1: [0], 0: [73]}, burst=0.7) == [("THROTTLE", 73)]

    # when a batch that begins at 82 raises the burst, which suffices for PID 0 alone
    decided = process({0: [82], 2: [76, *repeats_ms]}, burst=1.0)

    # then
    assert decided == [("RELEASE", 82), ("THROTTLE", 83)]


@pytest.mark.parametrize("rate", [50.0, 99.9, 100.0])
def test_a_quota_that_is_not_raised_leaves_the_end_of_a_throttle(mallory: Principal, rate: float) -> None:
    (throttle,) = mallory.produces(range(102), 0).decisions

    assert mallory.produces([0], 50_000, Limit(rate, "default", 7)).decisions == ()
    (release,) = mallory.produces([0], 90_000, Limit(rate, "default", 7)).decisions
    assert (release.action, release.decided_at_ms) == ("RELEASE", throttle.throttled_until_ms)


def test_no_quota_that_is_raised_makes_a_throttle_longer(mallory: Principal) -> None:
    # Given a throttle of a minute of which the bucket needs the first second, and then a far lower quota.
    mallory.produces(range(3700), 0, Limit(3600.0, "user"))
    mallory.produces([0], 100, Limit(3.0, "user"))

    assert mallory.produces([0], 200, Limit(4.0, "user")).decisions == ()
    assert actions(mallory.produces([0], 80_000, Limit(4.0, "user"))) == ["RELEASE"]


BURST_600 = Limit(100.0, "user", producer_ids_burst=600.0)


def test_a_burst_that_is_raised_alone_brings_the_difference_and_ends_a_throttle_at_once(mallory: Principal) -> None:
    mallory.produces(range(200), 0)

    raised = mallory.produces([9001], 1000, BURST_600)

    # A hundred are owed; 500 more come, and one is taken.
    assert [(each.action, each.reason, each.burst) for each in raised.decisions] == [("RELEASE", "quota_changed", 600)]
    assert (raised.metrics[-1].tokens, raised.metrics[-1].burst) == (399, 600)


@pytest.mark.parametrize(
    ("limit", "debt"),
    [
        (Limit(100.0, "user", producer_ids_burst=50.0), 100),
        (Limit(50.0, "user", producer_ids_burst=600.0), 50),
        (HUNDRED, 100),
    ],
)
def test_a_burst_that_is_not_raised_leaves_the_debt_to_the_rate_and_the_end_of_a_throttle(
    mallory: Principal, limit: Limit, debt: int
) -> None:
    flood = mallory.produces(range(701), 0, BURST_600)

    same_end = mallory.produces(range(9000, 9010), 1000, limit)

    assert (flood.metrics[-1].tokens, same_end.decisions) == (-100, ())
    assert same_end.metrics[-1].tokens == -debt


def test_a_burst_that_shrinks_takes_what_is_above_it(mallory: Principal) -> None:
    mallory.produces([1], 0, BURST_600)

    shrunk = mallory.produces(range(100, 103), 1000, Limit(100.0, "user", producer_ids_burst=2.5))

    assert (shrunk.metrics[-1].admitted_pids, shrunk.metrics[-1].tokens, shrunk.metrics[-1].burst) == (1 + 3, -0.5, 2.5)


def test_a_burst_of_its_own_holds_whatever_the_default_burst_is() -> None:
    mallory = principal(QuotaConfig(burst_windows=11), salt=5)

    assert mallory.produces(range(2000), 0, BURST_600).metrics[-1].admitted_pids == 601


def test_rows_carry_the_size_of_the_bucket_though_the_quota_has_no_burst_of_its_own() -> None:
    outcome = principal(QuotaConfig(burst_windows=11), salt=5).produces(range(2000), 0)

    assert (outcome.decisions[0].burst, outcome.metrics[-1].burst) == (1100, 1100)


def test_throttles_of_one_moment_under_quotas_set_one_after_the_other_have_ids_of_their_own(mallory: Principal) -> None:
    (first,) = mallory.produces(range(10), 0, Limit(3.0, "user", 1)).decisions
    mallory.produces([0], 0, UNLIMITED)
    (again,) = mallory.produces([20, 21], 0, Limit(3.0, "user", 2)).decisions

    assert (first.action, again.action, first.decided_at_ms) == ("THROTTLE", "THROTTLE", again.decided_at_ms - 2)
    assert first.decision_id != again.decision_id


def test_releases_of_throttles_of_one_moment_have_ids_of_their_own() -> None:
    mallory = principal(QuotaConfig(max_throttle_seconds=60))
    raised = Limit(5.0, "user", 2, producer_ids_burst=2.0)
    mallory.produces([1, 2, 3], 0, Limit(3.7, "user", 1, producer_ids_burst=1.0))

    # The first throttle ends by the raise, the second one after its renewal.
    first, _ = mallory.produces([4, 5], 0, raised).decisions
    _, second = mallory.produces([5], 520_000, raised).decisions + mallory.produces([1], 970_000, raised).decisions

    assert (first.reason, second.reason) == ("quota_changed", "throttle_ended")
    assert first.decision_id != second.decision_id


def test_deleting_and_adding_a_quota_again_does_not_refill_the_bucket(mallory: Principal) -> None:
    mallory.produces(range(102), 0)
    mallory.produces([9001], 1000, UNLIMITED)

    again = mallory.produces([9002], 2000)

    assert again.metrics[-1].tokens == -3.0


@pytest.mark.parametrize("rate", [0.001, 1e6, 9.9e11])
def test_a_ledger_of_a_tiny_or_a_huge_quota_can_be_stored(mallory: Principal, rate: float) -> None:
    mallory.produces([1, 2, 3], 0, Limit(rate, "user"))

    assert mallory.produces([4], 1000, Limit(rate, "user")).metrics[-1].tokens == pytest.approx(
        rate - 4 if rate > 1 else rate - 1
    )


def test_a_quota_change_makes_no_row_and_swallows_none(mallory: Principal) -> None:
    mallory.produces([1], 0)

    alone = mallory.produces([1], 1000, Limit(10.0, "user"))
    with_an_interval = mallory.produces([1], 61_000, HUNDRED)

    assert alone.metrics == ()
    assert [(row.window_end_ms - START_MS, row.quota) for row in with_an_interval.metrics] == [(120_000, 100.0)]


def test_interval_counts_are_reported_for_each_interval_of_a_batch(mallory: Principal) -> None:
    times = [START_MS, START_MS + 1000, START_MS + MINUTE_MS, START_MS + 3 * MINUTE_MS]

    outcome = mallory.takes(Events([1, 2, 3, 4], times, [("", "")] * 4, [CHARGED] * 4))

    assert [(row.window_end_ms - START_MS, row.admitted_pids) for row in outcome.metrics] == [
        (MINUTE_MS, 2),
        (2 * MINUTE_MS, 1),
        (4 * MINUTE_MS, 1),
    ]


def test_pids_of_a_broker_that_is_newly_watched_are_free_whatever_the_ledger_has_learned(mallory: Principal) -> None:
    mallory.produces([1], 0)

    outcome = mallory.produces(range(100, 400), MINUTE_MS, kind=LEARNING)
    later = mallory.produces(range(100, 400), 2 * MINUTE_MS)

    assert (admitted(outcome), refused(outcome), actions(outcome)) == (0, 0, [])
    assert refused(later) == 0


def test_a_late_event_keeps_its_known_pid_though_what_its_quantum_renewed_is_forgotten() -> None:
    # Given a quantum whose renewals are used up by a PID of one that is not live any more.
    mallory = principal(QuotaConfig(window_seconds=60, late_grace_seconds=0))
    for pid, at_ms in ((1, 0), (2, 59_990), (1, 60_010), (3, 75_010)):
        mallory.produces([pid], at_ms)

    late = mallory.produces([2], 74_930)
    again = mallory.produces([2], 132_600)

    assert (late.metrics[-1].late_pids, admitted(again)) == (1, 0)


def test_a_lost_ledger_learns_only_pids_that_were_handed_out_before_the_loss(mallory: Principal) -> None:
    ledger = Ledger("User:mallory", mallory.deployment)
    ledger.extend_learning(Learning(START_MS + HOUR_MS, below=4000))
    mallory.stored = ledger.to_bytes()

    old, new = mallory.produces([3998, 3999], 1000), mallory.produces([4000, 4001], 2000)
    later = mallory.produces([3997], HOUR_MS)

    assert [admitted(each) for each in (old, new, later)] == [0, 2, 1]
    assert [each.metrics[-1].phase for each in (old, new, later)] == ["learning", "learning", "enforcing"]


def test_a_ledger_that_was_lost_without_a_known_bound_learns_every_pid(mallory: Principal) -> None:
    ledger = Ledger("User:mallory", mallory.deployment)
    ledger.extend_learning(Learning(START_MS + HOUR_MS))
    mallory.stored = ledger.to_bytes()

    outcomes = [mallory.produces(range(pid, pid + 200), 1000) for pid in (0, 2**62)]

    assert [(admitted(each), refused(each)) for each in outcomes] == [(0, 0), (0, 0)]


def test_of_two_learning_times_that_which_ends_later_counts(mallory: Principal) -> None:
    ledger = Ledger("User:mallory", mallory.deployment)
    for learning in (Learning(START_MS + 1000), Learning(START_MS + HOUR_MS, 4000), Learning(START_MS + 2000, 8000)):
        ledger.extend_learning(learning)
    mallory.stored = ledger.to_bytes()

    assert admitted(mallory.produces([3999, 4000], 0)) == 1


def test_a_flood_of_pids_beyond_the_bound_is_refused_while_old_pids_pass_in_the_same_tick() -> None:
    mallory = Principal(Deployment(learn_until_ms=START_MS + HOUR_MS, learn_below=4000), START_MS, HUNDRED)
    pids = [pid for pair in zip(range(5000, 5600), range(3000, 3600), strict=True) for pid in pair]

    outcome = mallory.takes(events_at(START_MS, pids))
    again = mallory.produces(range(3000, 3600), 20_000)

    assert (outcome.metrics[-1].admitted_pids, outcome.decisions[0].evidence.sample_pids[0]) == (101, 5101)
    assert outcome.metrics[-1].refused_pids == pytest.approx(499, rel=0.1)
    assert (admitted(again), outcome.metrics[-1].active_pids) == (0, 600 + 101 + 99)
