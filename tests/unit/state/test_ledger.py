"""The rules seen from outside: events in, decisions and counts out."""

import pytest

from quota.config import QuotaConfig
from quota.limits import UNLIMITED, Limit
from state.events import Deployment
from state.learning import Learning
from state.ledger import Ledger
from tests.kits.ledger_kit import Principal, actions, admitted, refused

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


def test_a_known_pid_costs_nothing_however_often_it_produces(mallory: Principal) -> None:
    mallory.produces([1], 0)

    for minute in range(1, 300):
        mallory.produces([1], minute * MINUTE_MS)
    outcome = mallory.produces([1], 300 * MINUTE_MS)

    assert outcome.metrics[-1].active_pids == 1
    assert outcome.metrics[-1].tokens == 100.0


def test_a_ledger_without_quota_stops_growing_at_its_cap_and_says_so() -> None:
    outcome = principal(QuotaConfig(max_uncharged_bytes=4096)).produces(range(20_000), 0, UNLIMITED)

    assert outcome.metrics[-1].saturated
    # The cap, the sketch of what is left out, and a few counts.
    assert outcome.metrics[-1].state_bytes < 4096 + 1024
    assert outcome.metrics[-1].new_pids_window == pytest.approx(20_000, rel=0.1)


def test_a_throttle_is_renewed_when_it_doubles_and_once_a_minute_while_pids_are_refused(mallory: Principal) -> None:
    outcomes = [mallory.produces(range(s * 1000, s * 1000 + 200), s * 1000) for s in range(181)]

    decided = [decision for outcome in outcomes for decision in outcome.decisions]
    assert [decision.action for decision in decided] == ["THROTTLE"] * 9
    assert [decision.decided_at_ms - START_MS for decision in decided] == [*range(6), 60_000, 120_000, 180_000]
    tokens = [decision.tokens for decision in decided]
    assert tokens == pytest.approx([-2, -4, -8, -16, -32, -64, -99.5, -99.5, -99.5], abs=0.5)
    assert len({decision.decision_id for decision in decided}) == 9


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


def test_false_positives_of_a_flood_do_not_add_up_over_quanta() -> None:
    mallory, flood, active = principal(QuotaConfig(false_positive_rate=0.01)), 10_000, []
    for quantum in range(24):
        pids = range(quantum * flood, (quantum + 1) * flood)
        active.append(mallory.produces(pids, quantum * QUANTUM_MS).metrics[-1].active_pids)

    live_quanta = 5
    assert max(active) <= 101 + live_quanta * (25 + 1.5 * 0.01 * flood)


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


@pytest.mark.parametrize("rate", [0.001, 1e6, 9.9e11])
def test_a_ledger_of_a_tiny_or_a_huge_quota_can_be_stored(mallory: Principal, rate: float) -> None:
    mallory.produces([1, 2, 3], 0, Limit(rate, "user"))

    assert mallory.produces([4], 1000, Limit(rate, "user")).metrics[-1].tokens == pytest.approx(
        rate - 4 if rate > 1 else rate - 1
    )


def test_a_late_event_keeps_its_known_pid_though_what_its_quantum_renewed_is_forgotten() -> None:
    # Given a quantum whose renewals are used up by a PID of one that is not live any more.
    mallory = principal(QuotaConfig(window_seconds=60, late_grace_seconds=0))
    for pid, at_ms in ((1, 0), (2, 59_990), (1, 60_010), (3, 75_010)):
        mallory.produces([pid], at_ms)

    late = mallory.produces([2], 74_930)
    again = mallory.produces([2], 132_600)

    assert (late.metrics[-1].late_pids, admitted(again)) == (1, 0)


def test_of_two_learning_times_that_which_ends_later_counts(mallory: Principal) -> None:
    ledger = Ledger("User:mallory", mallory.deployment)
    for learning in (Learning(START_MS + 1000), Learning(START_MS + HOUR_MS, 4000), Learning(START_MS + 2000, 8000)):
        ledger.extend_learning(learning)
    mallory.stored = ledger.to_bytes()

    assert admitted(mallory.produces([3999, 4000], 0)) == 1
