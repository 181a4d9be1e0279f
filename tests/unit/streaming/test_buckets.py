"""State buckets: several principals in one state decide, row by row, as a state each does."""

from collections.abc import Iterator

import pandas as pd
from hypothesis import example, given
from hypothesis import strategies as st

from quota.config import QuotaConfig
from quota.limits import Limit, Quotas
from state.events import Deployment
from streaming.batch.event_times import MAX_EVENT_TIME, EventTimes
from streaming.operator.ledger_group import LedgerGroup
from streaming.operator.rows import Rows, unpack_rows
from tests.kits.batch_kit import KnownBatch, operator_of, pre_aggregate_of
from tests.kits.exploded_kit import event_table, exploded
from tests.kits.group_state_kit import State
from tests.kits.packed_kit import frame_of

NOW_MS = 1_790_000_000_000
HOUR_MS = 3_600_000
DEPLOYMENT = Deployment(QuotaConfig(), salt=5)
QUOTAS = Quotas(default=Limit(4.0, "default", NOW_MS))

BATCHES = st.lists(
    st.tuples(
        st.integers(0, 14 * HOUR_MS),
        st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 12)), min_size=1, max_size=12),
    ),
    min_size=1,
    max_size=8,
)


def frame(events: list[tuple[str, int]], at_ms: int) -> pd.DataFrame:
    principals = [f"User:{name}" for name, _ in events]
    table = event_table([pid for _, pid in events], [at_ms] * len(events), principal=principals)
    return frame_of(pre_aggregate_of(DEPLOYMENT).packing.rows(exploded(table)))


def rows_of(parts: Iterator[pd.DataFrame]) -> Rows:
    return [row for part in parts for row in unpack_rows(part["packed"])]


class World:
    """A stream's states, each called when it has events or its time is over, and what the driver keeps of times."""

    def __init__(self, buckets: bool) -> None:
        self.buckets = buckets
        self.states: dict[object, State] = {}
        self.times = EventTimes()

    def take(self, rows: pd.DataFrame, at_ms: int) -> Rows:
        said: Rows = []
        operator = operator_of(DEPLOYMENT, KnownBatch(in_force=QUOTAS, times=self.times))
        called = dict(list(rows.groupby(lambda _: 3) if self.buckets else rows.groupby("principal")))
        for key, part in called.items():
            before = self.states.get(key)
            state = self.states[key] = before.next_call(at_ms) if before else State(now_ms=at_ms)
            said += rows_of(operator((key,), iter([part]), state))
        for key, before in self.states.items():
            if key not in called and before.exists and (before.times_out_ms or 0) <= at_ms:
                state = self.states[key] = before.times_out(at_ms)
                said += rows_of(operator((key,), iter(()), state))
        self.times = self.times.after([body for kind, body in said if kind == MAX_EVENT_TIME])
        return said


def said_by(buckets: bool, batches: list[tuple[int, list[tuple[str, int]]]]) -> Rows:
    world, at_ms, said = World(buckets), NOW_MS, []
    # A throttle that has ended is told when its state is called the next time: at the end each one was.
    for step_ms, events in [*batches, *[(14 * HOUR_MS, [("z", 0)])] * 3]:
        at_ms += step_ms
        said += world.take(frame(events, at_ms), at_ms)
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
@example(batches=[(0, [("a", number) for number in range(6)]), (43_300_000, [("b", 0)]), (0, [("b", 0)])])
def test_a_bucket_says_what_a_state_each_says(batches: list[tuple[int, list[tuple[str, int]]]]) -> None:
    assert without_forgetting(said_by(True, batches)) == without_forgetting(said_by(False, batches))


def test_a_bucket_is_not_written_when_nothing_changed() -> None:
    world = World(buckets=True)
    world.take(frame([("a", 1), ("b", 1)], NOW_MS), NOW_MS)
    assert world.states[3].updates == 1

    assert world.take(frame([("a", 1), ("b", 1)], NOW_MS + 500), NOW_MS + 500) == []
    assert world.states[3].updates == 0


def test_who_is_silent_for_long_leaves_the_bucket_and_the_others_stay() -> None:
    world = World(buckets=True)
    said: Rows = []
    for hour in (0, 20, 21):
        at_ms = NOW_MS + hour * HOUR_MS
        said = world.take(frame([("b", hour)] if hour else [("a", 1), ("b", 1)], at_ms), at_ms)

    (last,) = [body for kind, body in said if kind == "producer_id_metrics" and body["principal"] == "User:a"]
    assert last["rate"] == 0
    group = LedgerGroup(world.states[3])
    assert (group.get("User:a"), group.get("User:b") is None) == (None, False)
