"""State buckets: several principals in one state decide, row by row, as a state each does."""

from collections.abc import Iterator

import pandas as pd
import pyarrow as pa
import pytest
from group_state_kit import State
from hypothesis import given
from hypothesis import strategies as st

from quota.config import QuotaConfig
from state.events import Deployment
from streaming import operator
from streaming.buckets import operate_bucket
from streaming.operator import operate
from streaming.quotas import Quota, Quotas
from streaming.rows import Rows, unpack_rows
from streaming.tally import tally_events

NOW_MS = 1_790_000_000_000
HOUR_MS = 3_600_000
DEPLOYMENT = Deployment(QuotaConfig(), salt=5)

BATCHES = st.lists(
    st.tuples(
        st.integers(0, 14 * HOUR_MS),
        st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 12)), min_size=1, max_size=12),
    ),
    min_size=1,
    max_size=8,
)


def frame(events: list[tuple[str, int]], at_ms: int) -> pd.DataFrame:
    size = len(events)
    table = pa.table(
        {
            "timestamp_ms": pa.array([at_ms] * size, pa.int64()),
            "principal": [f"User:{name}" for name, _ in events],
            "producer_id": pa.array([pid for _, pid in events], pa.int64()),
            "client_id": ["app"] * size,
            "correction": [False] * size,
            "learning": [False] * size,
            "partition": pa.array([0] * size, pa.int32()),
            "offset": pa.array(range(size), pa.int64()),
        }
    )
    principals, packed = zip(*tally_events(table, DEPLOYMENT.config.quantum_ms), strict=True)
    return pd.DataFrame({"principal": principals, "packed": packed})


def quotas() -> Quotas:
    return Quotas(default=Quota(4.0, NOW_MS))


def rows_of(parts: Iterator[pd.DataFrame]) -> Rows:
    return [row for part in parts for row in unpack_rows(part["packed"])]


class OneEach:
    """A state for each principal, all looked at when a batch comes, as Spark's timeouts do."""

    def __init__(self) -> None:
        self.states: dict[str, State] = {}

    def take(self, rows: pd.DataFrame) -> Rows:
        said: Rows = []
        for principal, part in rows.groupby("principal"):
            state = self._state(principal)
            said += rows_of(operate(DEPLOYMENT, frozenset(), (principal,), iter([part]), state, get_quotas=quotas))
        for principal in sorted(set(self.states) - set(rows["principal"])):
            # A state is asked when its time is over; asking too early changes nothing that comes out.
            if self.states[principal].exists:
                state = self.states[principal] = self.states[principal].times_out()
                said += rows_of(operate(DEPLOYMENT, frozenset(), (principal,), iter(()), state))
        return said

    def _state(self, principal: str) -> State:
        known = self.states.get(principal)
        self.states[principal] = known.next_call() if known and known.exists else State()
        return self.states[principal]


class Bucket:
    """All principals in one state."""

    def __init__(self) -> None:
        self.state = State()

    def take(self, rows: pd.DataFrame) -> Rows:
        self.state = self.state.next_call() if self.state.exists else State()
        return rows_of(operate_bucket(DEPLOYMENT, frozenset(), (3,), iter([rows]), self.state, get_quotas=quotas))


def said_by(way: OneEach | Bucket, batches: list[tuple[int, list[tuple[str, int]]]]) -> Rows:
    with pytest.MonkeyPatch.context() as fresh:
        fresh.setattr(operator, "reached", operator.EventTime())
        at_ms, said = NOW_MS, []
        for step_ms, events in batches:
            at_ms += step_ms
            said += way.take(frame(events, at_ms))
        return said


def without_forgetting(said: Rows) -> Rows:
    """Leave out what only tells when a ledger was removed: that may be early or late, and changes nothing else."""
    kept = [
        (kind, body)
        for kind, body in said
        if kind == "throttle_decisions" or (kind == "producer_id_metrics" and body["new_pids_window"])
    ]
    return sorted(kept, key=str)


@given(batches=BATCHES)
def test_a_bucket_says_what_a_state_each_says(batches: list[tuple[int, list[tuple[str, int]]]]) -> None:
    assert without_forgetting(said_by(Bucket(), batches)) == without_forgetting(said_by(OneEach(), batches))


def test_a_bucket_is_not_written_when_nothing_changed() -> None:
    bucket = Bucket()
    bucket.take(frame([("a", 1), ("b", 1)], NOW_MS))
    assert bucket.state.updates == 1

    assert bucket.take(frame([("a", 1), ("b", 1)], NOW_MS + 500)) == []
    assert bucket.state.updates == 0


def test_who_is_silent_for_long_leaves_the_bucket_and_the_others_stay() -> None:
    bucket = Bucket()
    bucket.take(frame([("a", 1), ("b", 1)], NOW_MS))
    for hour in (20, 21, 22):
        said = bucket.take(frame([("b", 1)], NOW_MS + hour * HOUR_MS))
        if said and "User:a" in str(said):
            break
    assert dict(said)["producer_id_metrics"]["rate"] == 0
    bucket.take(frame([("b", 2)], NOW_MS + 23 * HOUR_MS))
    assert b"User:a" not in bucket.state.stored
    assert b"User:b" in bucket.state.stored
