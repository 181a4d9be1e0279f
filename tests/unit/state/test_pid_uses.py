"""A sample of the uses of a principal's PIDs."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from state.events import CHARGED, LEARNING, Deployment, Events
from state.hashing import hash_pids
from state.pid_uses import MAX_PIDS, NO_USES, PidUse, PidUses, observed

DEPLOYMENT = Deployment(salt=7)
TICK_MS = 10_000
QUANTUM_MS = 900_000


def after(uses: PidUses, *events: tuple[int, int], kind: int = CHARGED) -> PidUses:
    """Return the sample after events of (PID, ms)."""
    pids, times_ms = [pid for pid, _ in events], [ms for _, ms in events]
    clients, kinds = [("app", "10.0.0.1")] * len(events), [kind] * len(events)
    return observed(uses, Events(pids, times_ms, clients, kinds, hash_pids(pids, DEPLOYMENT.salt)), DEPLOYMENT)


def flood(first: int, count: int, begin_ms: int, gap_ms: int) -> Sequence[tuple[int, int]]:
    return [(first + number, begin_ms + gap_ms * number) for number in range(count)]


def test_first_and_last_use_are_kept_and_the_metrics_row_has_them() -> None:
    uses = after(NO_USES, (5, 1234), (5, 31_000), (6, 40_000))
    assert uses.pids == {5: PidUse("app", 1234, 30_000), 6: PidUse("app", 40_000, 40_000)}
    assert uses.row() == {
        "pid_uses": "5 1234 30000 app;6 40000 40000 app",
        "pid_uses_one_in": 1,
    }
    assert not uses.is_told


def test_the_first_use_of_a_pid_that_may_be_older_than_the_watch_is_unknown() -> None:
    assert after(NO_USES, (5, 1234), kind=LEARNING).pids[5].first_ms == 0


def test_a_pid_in_steady_use_changes_the_sample_less_and_less_often() -> None:
    uses, changes = after(NO_USES, (5, 0)), 0
    for ms in range(TICK_MS, 4 * QUANTUM_MS, TICK_MS):
        before, uses = uses, after(uses, (5, ms))
        changes += uses is not before
    assert changes < 24
    # It is still known to within a quantum how long the PID was in use.
    assert uses.pids[5].last_ms >= 3 * QUANTUM_MS


def test_repeats_within_a_tick_change_nothing() -> None:
    uses = after(NO_USES, (5, 0), (5, 20_000))
    assert after(uses, (5, 20_001), (5, 29_999)) is uses


def test_a_flood_leaves_an_even_sample_of_bounded_size() -> None:
    uses = after(NO_USES, *flood(0, 20_000, begin_ms=0, gap_ms=50))
    firsts = sorted(use.first_ms for use in uses.pids.values())
    assert MAX_PIDS // 4 <= len(uses.pids) <= MAX_PIDS
    assert uses.row()["pid_uses_one_in"] >= 20_000 // MAX_PIDS
    # The sample covers all of the flood, not only its end.
    assert firsts[0] < 200_000
    assert firsts[-1] > 800_000


def test_after_a_flood_the_sample_gets_dense_again() -> None:
    uses = after(NO_USES, *flood(0, 20_000, begin_ms=0, gap_ms=50))
    later = QUANTUM_MS * 6
    uses = after(uses, *flood(50_000, 300, begin_ms=later, gap_ms=QUANTUM_MS // 4))
    recent = [use for use in uses.pids.values() if use.first_ms >= later]
    assert uses.level == 0
    assert len(recent) >= MAX_PIDS // 2


@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 3 * QUANTUM_MS)), max_size=200),
    st.lists(st.integers(0, 200), max_size=4),
)
def test_the_sample_does_not_depend_on_batches(events: list[tuple[int, int]], cuts: list[int]) -> None:
    ordered = sorted(events, key=lambda event: event[1])
    split = NO_USES
    edges = [0, *sorted(cut for cut in cuts if cut < len(ordered)), len(ordered)]
    for begin, end in pairwise(edges):
        split = after(split, *ordered[begin:end])
    whole = after(NO_USES, *ordered)
    assert (split.level, split.pids) == (whole.level, whole.pids)
