"""Floods over the debt: rows and stored PIDs stay bounded, and refused PIDs are counted exactly while all are owed."""

import pytest

from quota.config import QuotaConfig
from quota.limits import Limit
from state.events import Deployment, Events, Outcome
from state.layers import LayeredBloomFilter
from tests.kits.ledger_kit import Principal

START_MS = 1_790_000_000_000 // 3_600_000 * 3_600_000
HOUR_MS = 3_600_000
TICK_MS = 10_000
SKETCHES_BYTES = 10 * 616 + 1200
"""Sketches of five live quanta, and counts."""


def batch_of(events: list[tuple[int, int]]) -> Events:
    times, pids = zip(*events, strict=True)
    return Events(list(pids), list(times), [("app", "")] * len(pids), [0] * len(pids))


@pytest.mark.parametrize("quota", [3.0, 100.0, 1000.0])
@pytest.mark.parametrize("per_batch", [1, 7, 100_000])
def test_a_flood_gets_the_longest_throttle_by_a_dozen_rows(quota: float, per_batch: int) -> None:
    # given a flood of ten times the quota within two minutes
    principal = Principal(Deployment(salt=3), START_MS, Limit(quota, "user"))
    count = round(10 * quota) + 30
    events = [(START_MS + number * 120_000 // count, number) for number in range(count)]

    decisions = [
        decision
        for begin in range(0, count, per_batch)
        for decision in principal.takes(batch_of(events[begin : begin + per_batch])).decisions
    ]

    assert len(decisions) <= 12
    last = decisions[-1]
    longest_ms = last.throttled_until_ms - last.decided_at_ms
    # What came back of a token can't be owed.
    assert HOUR_MS - HOUR_MS / quota - TICK_MS <= longest_ms <= HOUR_MS


def test_owed_pids_and_their_refreshes_find_room_beside_those_that_take_no_token() -> None:
    # given a cap far below what the quota needs
    config = QuotaConfig(max_uncharged_bytes=1024)
    principal = Principal(Deployment(config, salt=3), START_MS, Limit(2000.0, "user"))
    needed = LayeredBloomFilter(config, 0).bytes_for(2000 * 3.25)

    flood = principal.produces(range(10_000), 0)
    later = [principal.produces(range(4000), quantum * 900_000) for quantum in range(1, 6)]

    assert (flood.metrics[-1].active_pids, flood.metrics[-1].tokens) == (4000, -2000)
    rows = [row for each in later for row in each.metrics]
    assert {(row.saturated, row.admitted_pids) for row in rows[1:]} == {(False, 0)}
    assert max(row.state_bytes for row in rows) <= needed + SKETCHES_BYTES


def counts_of(outcome: Outcome) -> tuple[int, int, int, int]:
    row = outcome.metrics[-1]
    return row.admitted_pids, row.owed_pids, row.refused_pids, row.new_pids_window


def test_refused_pids_are_counted_exactly_while_all_of_them_are_owed() -> None:
    principal = Principal(Deployment(salt=3), START_MS, Limit(2000.0, "user"))

    flood = principal.produces(range(3000), 0)
    again = principal.produces(range(3900), 0)
    later = principal.produces(range(3990), 60_000)

    assert counts_of(flood) == (2001, 999, 999, 3000)
    assert counts_of(again) == (2001, 1899, 1899, 3900)
    assert counts_of(later) == (0, 90, 90, 3990)


def test_a_pid_that_is_refused_and_then_owed_counts_as_owed_and_once_as_refused() -> None:
    # given 40 PIDs on a quota of 10 that try all the time: 11 admitted, 9 owed, the others as tokens come back
    principal = Principal(Deployment(salt=3), START_MS, Limit(10.0, "user"))

    outcomes = [principal.produces(range(40), minute * 60_000) for minute in range(0, 60, 6)]

    assert [counts_of(each) for each in outcomes[:3]] == [(11, 9, 29, 40), (0, 1, 20, 40), (0, 1, 19, 40)]
    assert sum(row.owed_pids for each in outcomes for row in each.metrics) == 18
    assert counts_of(outcomes[-1]) == (0, 1, 12, 40)


def test_pids_that_are_owed_after_a_flood_are_in_its_sketch() -> None:
    principal = Principal(Deployment(salt=3), START_MS, Limit(100.0, "user"))

    principal.produces(range(1000), 0)
    later = principal.produces(range(1000, 2000), 6 * 60_000)

    admitted_pids, owed_pids, refused_pids, new_pids_window = counts_of(later)
    assert (admitted_pids, owed_pids) == (0, 10)
    assert refused_pids == pytest.approx(1000, rel=0.05)
    assert new_pids_window == pytest.approx(2000, rel=0.05)
