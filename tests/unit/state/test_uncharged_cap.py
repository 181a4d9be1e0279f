"""What takes no token has one cap, and beyond it a principal is reported, not enforced."""

import pytest

from quota.config import QuotaConfig
from quota.limits import UNLIMITED, Limit
from state.events import CHARGED, LEARNING, Deployment, Events, Outcome
from tests.kits.ledger_kit import Principal, admitted, refused

QUANTUM_MS = 900_000
HOUR_MS = 4 * QUANTUM_MS
START_MS = 1_790_000_100_000 // QUANTUM_MS * QUANTUM_MS
TEN, HUNDRED = Limit(10.0, "user"), Limit(100.0, "user")
SMALL = QuotaConfig(max_uncharged_bytes=16 * 1024)
BEYOND_THE_FILTER_BYTES = 10 * 616 + 600
"""Two sketches for each of five live quanta, and counts: they do not depend on the number of PIDs."""


def learner(learn_ms: int = 0, config: QuotaConfig = SMALL) -> Principal:
    return Principal(Deployment(config, salt=77, learn_until_ms=START_MS + learn_ms), START_MS, TEN)


def stored_bytes(principal: Principal) -> int:
    return len(principal.stored or b"")


def charged(outcome: Outcome) -> tuple[int, int]:
    """What of the PIDs was held against the quota."""
    return admitted(outcome), refused(outcome)


def test_a_hundred_thousand_pids_in_use_are_learned_and_never_charged_by_default() -> None:
    principal = learner(HOUR_MS, QuotaConfig())
    pids = range(100_000)

    outcomes = [principal.produces(pids, quantum * QUANTUM_MS) for quantum in range(7)]

    assert [charged(outcome) for outcome in outcomes] == [(0, 0)] * 7
    assert {row.saturated for outcome in outcomes for row in outcome.metrics} == {False}
    assert [outcome.decisions for outcome in outcomes] == [()] * 7
    assert outcomes[-1].metrics[-1].active_pids == pytest.approx(100_000, rel=0.001)
    assert stored_bytes(principal) <= 2 * 1024 * 1024 + BEYOND_THE_FILTER_BYTES


def test_a_healthy_principal_beyond_the_cap_is_reported_and_never_refused() -> None:
    principal = learner(HOUR_MS)
    pids = range(8000)

    outcomes = [principal.produces(pids, quantum * QUANTUM_MS) for quantum in range(16)]

    rows = [outcome.metrics[-1] for outcome in outcomes]
    assert [outcome.decisions for outcome in outcomes] == [()] * 16
    assert {(row.phase, row.saturated) for row in rows[4:]} == {("enforcing", True)}
    assert max(row.state_bytes for row in rows) <= SMALL.max_uncharged_bytes + BEYOND_THE_FILTER_BYTES


def test_what_a_burst_has_admitted_finds_room_to_be_renewed_however_small_the_cap() -> None:
    principal, deploys = learner(), Limit(10.0, "user", producer_ids_burst=9000.0)

    outcomes = [principal.produces(range(9000), quantum * QUANTUM_MS, deploys) for quantum in range(12)]

    assert [charged(outcome) for outcome in outcomes] == [(9000, 0)] + [(0, 0)] * 11
    assert {row.saturated for outcome in outcomes for row in outcome.metrics} == {False}


def test_known_pids_that_find_no_room_to_be_renewed_are_never_refused_when_they_are_forgotten() -> None:
    principal = learner(QUANTUM_MS)
    pids = range(2500)

    learned = principal.produces(pids, 0)
    principal.produces(range(10**6, 10**6 + 5), QUANTUM_MS)
    later = [principal.produces(pids, quantum * QUANTUM_MS + 60_000) for quantum in range(1, 12)]

    assert not learned.metrics[-1].saturated, "there is room for them once"
    assert [outcome.decisions for outcome in later] == [()] * 11
    assert [charged(outcome) for outcome in later] == [(0, 0)] * 11
    assert {outcome.metrics[-1].saturated for outcome in later[2:]} == {True}


def test_a_flood_while_learning_is_judged_once_the_gap_that_it_left_has_passed() -> None:
    principal = learner(HOUR_MS)
    decided = []
    for quantum in range(16):
        outcome = principal.produces(range(quantum * 8000, (quantum + 1) * 8000), quantum * QUANTUM_MS)
        decided.append(bool(outcome.decisions))

    # The hour of learning, and the window and quantum that a quantum with a gap lives.
    assert decided == [False] * 8 + [True] * 8


def test_pids_that_are_not_enforced_are_counted_but_not_stored() -> None:
    principal = learner(QUANTUM_MS)
    principal.produces(range(50_000), 0)
    before = stored_bytes(principal)

    outcome = principal.produces(range(10**6, 10**6 + 5000), QUANTUM_MS)

    row = outcome.metrics[-1]
    assert (row.saturated, outcome.decisions, charged(outcome)) == (True, (), (0, 0))
    assert stored_bytes(principal) <= before + 700
    assert row.new_pids_window > 5000


def test_a_quota_set_against_a_flood_without_one_holds_from_the_next_batch() -> None:
    principal = learner()
    flood = principal.produces(range(50_000), 0, UNLIMITED)

    outcome = principal.produces(range(50_000, 60_000), 1000, HUNDRED)

    assert flood.metrics[-1].saturated
    assert {decision.action for decision in outcome.decisions} == {"THROTTLE"}
    assert not outcome.metrics[-1].saturated


def test_pids_that_find_no_room_excuse_what_comes_after_them_in_their_tick_whatever_the_batch() -> None:
    refused, left_out, after = range(200), range(10**6, 10**6 + 20_000), range(500, 600)
    parts = [(refused, CHARGED), (left_out, LEARNING), (after, CHARGED)]
    pids = [pid for part, _ in parts for pid in part]
    kinds = [kind for part, kind in parts for _ in part]
    at_once, in_parts = learner(), learner()

    whole = at_once.takes(Events(pids, [START_MS] * len(pids), [("app", "")] * len(pids), kinds))
    outcomes = [in_parts.produces(part, 0, kind=kind) for part, kind in parts]

    assert whole.content == outcomes[-1].content
    assert whole.metrics[-1].refused_pids == pytest.approx(200 - 11, rel=0.1)


def test_a_quota_that_allows_more_than_the_cap_holds_is_enforced_all_the_same() -> None:
    large = Limit(20_000.0, "user")
    principal = learner()

    outcomes = [principal.produces(range(20_000), quantum * QUANTUM_MS, large) for quantum in range(7)]

    first, *later = [charged(outcome) for outcome in outcomes]
    assert first[0] == pytest.approx(20_000, abs=20)
    assert first[1] == 0
    assert later == [(0, 0)] * 6
    assert {row.saturated for outcome in outcomes for row in outcome.metrics} == {False}


def test_a_quota_that_is_raised_makes_room_from_the_first_event_of_its_batch() -> None:
    principal, raised, pids = learner(), Limit(10_000.0, "user"), range(2500)
    principal.produces(pids, 0, kind=LEARNING)

    outcomes = [principal.produces(pids, quantum * QUANTUM_MS, raised) for quantum in (1, 5)]

    assert [charged(outcome) for outcome in outcomes] == [(0, 0)] * 2
    assert {row.saturated for outcome in outcomes for row in outcome.metrics} == {False}


def test_a_quota_that_is_removed_and_set_again_leaves_a_healthy_principal_beyond_the_cap_alone() -> None:
    principal = learner(QUANTUM_MS)
    minutes = [(0, HUNDRED), (15, HUNDRED), (16, UNLIMITED), (17, HUNDRED)]

    outcomes = [principal.produces(range(8000), minute * 60_000, limit) for minute, limit in minutes]

    assert [(outcome.decisions, outcome.metrics[-1].saturated) for outcome in outcomes] == [((), True)] * 4
