from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from quota.decision import Client, Decision
from quota.limits import Limit
from state.events import CHARGED, LEARNING, Deployment, Events, MetricsRow
from state.learning import Learning
from state.ledger import Ledger

MINUTE_MS = 60_000
START_MS = 1_790_000_000_000

EVENTS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(-8 * MINUTE_MS, 8 * MINUTE_MS), st.sampled_from([CHARGED, LEARNING])),
    min_size=1,
    max_size=120,
)


def columns(rows: list[tuple[int, int, Client, int]]) -> Events:
    pids, times, clients, kinds = (list(column) for column in zip(*rows, strict=True))
    return Events(pids, times, clients, kinds)


def final(rows: Iterable[MetricsRow]) -> dict[int, MetricsRow]:
    """The row that holds of each interval; late events are counted per batch."""
    ordered = sorted(rows, key=lambda row: row.as_of_ms)
    return {row.window_end_ms: replace(row, late_pids=0) for row in ordered}


@given(
    steps=EVENTS,
    rate=st.sampled_from([5.0, 600.0]),
    cuts=st.sets(st.integers(1, 119), max_size=20),
    learning=st.sampled_from([Learning(), Learning(START_MS + 30 * MINUTE_MS), Learning(START_MS + 60 * MINUTE_MS, 9)]),
)
def test_any_cut_into_batches_gives_the_same_decisions_rows_and_bytes(
    steps: list[tuple[int, int, int]], rate: float, cuts: set[int], learning: Learning
) -> None:
    deployment = Deployment(salt=99, learn_until_ms=learning.until_ms, learn_below=learning.below)
    time_ms, rows = START_MS, []
    for number, (pid, step_ms, kind) in enumerate(steps):
        time_ms = max(0, time_ms + step_ms)
        # A PID comes from several addresses: the first one that it was refused from counts.
        client = (f"client-{pid % 3}", ("", "10.0.0.7", "10.0.0.8")[number % 3])
        rows.append((pid, time_ms, client, kind))
    bounds = [0, *sorted(cut for cut in cuts if cut < len(rows)), len(rows)]

    whole = Ledger("User:a", deployment)
    outcome = whole.process(columns(rows), Limit(rate, "user"))
    at_once = outcome.decisions
    stored = None
    in_parts: list[Decision] = []
    metrics: list[MetricsRow] = []
    for begin, end in pairwise(bounds):
        part = Ledger("User:a", deployment, stored)
        said = part.process(columns(rows[begin:end]), Limit(rate, "user"))
        in_parts += said.decisions
        metrics += said.metrics
        stored = part.to_bytes()

    assert stored == whole.to_bytes()
    assert [(d.decision_id, d.decided_at_ms, d.throttled_until_ms, d.tokens, d.rate) for d in in_parts] == [
        (d.decision_id, d.decided_at_ms, d.throttled_until_ms, d.tokens, d.rate) for d in at_once
    ]
    assert final(metrics) == final(outcome.metrics)
    assert [d.evidence for d in in_parts if d.action == "RELEASE"] == [
        d.evidence for d in at_once if d.action == "RELEASE"
    ]
