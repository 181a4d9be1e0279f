"""The rules seen from outside: events in, decisions and counts out."""

import pytest

from quota.config import QuotaConfig
from quota.limits import UNLIMITED, Limit
from state.events import Deployment
from tests.kits.ledger_kit import Principal

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


def test_a_ledger_without_quota_stops_growing_at_its_cap_and_says_so() -> None:
    outcome = principal(QuotaConfig(max_uncharged_bytes=4096)).produces(range(20_000), 0, UNLIMITED)

    assert outcome.metrics[-1].saturated
    # The cap, the sketch of what is left out, and a few counts.
    assert outcome.metrics[-1].state_bytes < 4096 + 1024
    assert outcome.metrics[-1].new_pids_window == pytest.approx(20_000, rel=0.1)


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


@pytest.mark.parametrize("rate", [0.001, 1e6, 9.9e11])
def test_a_ledger_of_a_tiny_or_a_huge_quota_can_be_stored(mallory: Principal, rate: float) -> None:
    mallory.produces([1, 2, 3], 0, Limit(rate, "user"))

    assert mallory.produces([4], 1000, Limit(rate, "user")).metrics[-1].tokens == pytest.approx(
        rate - 4 if rate > 1 else rate - 1
    )


def test_learning_is_over_for_an_older_event_once_the_clock_has_passed_its_end() -> None:
    watched = principal(learn_until_ms=START_MS + MINUTE_MS)
    outcomes = [watched.produces([pid], at_ms) for pid, at_ms in ((1, 0), (2, 2 * MINUTE_MS), (3, 0))]

    assert [each.metrics[-1].tokens for each in outcomes] == [100.0, 99.0, 98.0]


def test_a_throttle_that_begins_when_another_was_released_is_newer_than_the_release(mallory: Principal) -> None:
    mallory.produces(range(150), 0)

    raised = mallory.produces(range(1000, 2000), MINUTE_MS, Limit(100.0, "user", producer_ids_burst=500.0))

    (release, _), (throttle, begun_ms) = [(each.action, each.decided_at_ms) for each in raised.decisions][:2]
    assert (release, throttle) == ("RELEASE", "THROTTLE")
    assert raised.decisions[0].decided_at_ms < begun_ms


def test_a_raised_quota_ends_a_throttle_when_the_debt_is_paid_even_within_the_minimum(mallory: Principal) -> None:
    mallory.produces(range(150), 0)

    (raised,) = mallory.produces([0], MINUTE_MS, Limit(10_000.0, "user")).decisions

    assert (raised.action, raised.reason) == ("THROTTLE", "quota_changed")
    assert 10_000 < raised.throttled_until_ms - raised.decided_at_ms < 20_000
