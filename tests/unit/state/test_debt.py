"""Owed PIDs: there is room for them, and refused PIDs are counted exactly while all of them are owed."""

from quota.config import QuotaConfig
from quota.limits import Limit
from state.events import Deployment, Outcome
from state.layers import LayeredBloomFilter
from tests.kits.ledger_kit import Principal

START_MS = 1_790_000_000_000 // 3_600_000 * 3_600_000
HOUR_MS = 3_600_000
SKETCHES_BYTES = 10 * 616 + 1200
"""Sketches of five live quanta, and counts."""


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
