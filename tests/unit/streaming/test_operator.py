"""The operator with Spark's own `GroupState`."""

from typing import Any

import pandas as pd
import pytest

from quota.config import QuotaConfig
from quota.limits import Limit, Quotas
from state.events import Deployment
from state.learning import Learning
from streaming.batch.context import MAX_EVENT_TIME
from streaming.batch.tracked_principals import FORGOTTEN, NOTES, OVERFLOWED, TrackedPrincipals
from streaming.decode.packing import pack_by_principal
from streaming.operator.ledger_group import LedgerGroup, StoredLedger
from streaming.operator.ledger_operator import OVERFLOW_BYTES
from streaming.operator.rows import unpack_rows
from tables.schema.specs import TABLES
from tests.kits.batch_kit import KnownBatch, frame_of, operator_of
from tests.kits.exploded_kit import event_table, exploded
from tests.kits.group_state_kit import State
from wire.packed_events import PackedQuarantine, Quarantined, pack

NOW_MS = 1_790_000_000_000
DEPLOYMENT = Deployment(QuotaConfig(), salt=5)
EMPTY = TrackedPrincipals()
QUOTAS = Quotas({"a": Limit(10.0, "user", NOW_MS), "ANONYMOUS": Limit(10.0, "user", NOW_MS)})
QUANTUM_MS, WINDOW_MS = DEPLOYMENT.config.quantum_ms, DEPLOYMENT.config.window_ms
STEP_MS = 60_000
NOTHING: dict[int, int] = {}


def frame(pids: list[int], at_ms: int = 0, principal: str = "User:a", partition: int = 0) -> pd.DataFrame:
    each = {"principal": principal, "partition": partition, "client_id": "app"}
    columns = {name: [value] * len(pids) for name, value in each.items()}
    return frame_of(pack_by_principal(exploded(event_table(pids, [NOW_MS + at_ms] * len(pids), **columns))))


def nothing() -> pd.DataFrame:
    return frame_of([])


def come(ms: int, partition: int = 0) -> dict[int, int]:
    """So far a partition had come before the batch."""
    return {partition: (NOW_MS + ms) // STEP_MS * STEP_MS}


def say(
    state: State,
    rows: pd.DataFrame,
    tracked: TrackedPrincipals = EMPTY,
    times: dict[int, int] = NOTHING,
    next_producer_id: int | None = None,
) -> list[tuple[str, Any]]:
    """All that comes out, notes for the driver too."""
    operator = operator_of(DEPLOYMENT, KnownBatch("", QUOTAS, tracked, times, next_id=next_producer_id))
    return [row for part in operator((3,), iter([rows]), state) for row in unpack_rows(part["packed"])]


def run(state: State, rows: pd.DataFrame, times: dict[int, int] = NOTHING) -> list[tuple[str, dict[str, Any]]]:
    return [(kind, body) for kind, body in say(state, rows, times=times) if kind in TABLES]


def test_rows_have_exactly_the_columns_of_their_tables() -> None:
    rows = dict(run(State(), frame(list(range(50)))))

    assert set(rows) == {"throttle_decisions", "producer_id_metrics"}
    for table, body in rows.items():
        columns = set(TABLES[table].schema.names) - {"batch_id"}
        assert set(body) == columns


def test_a_metrics_row_has_the_uses_of_pids_if_they_have_changed() -> None:
    state = State()
    told = [run(state, frame(pids, at_ms=ms))[-1][1] for pids, ms in (([1, 2], 0), ([1], 70_000))]
    repeated = run(state, frame([1], at_ms=80_000))
    later = run(state, frame([1], at_ms=140_000))[-1][1]

    assert told[0]["pid_uses"] == f"1 {NOW_MS} {NOW_MS} app;2 {NOW_MS} {NOW_MS} app"
    assert repeated == []
    first_ms, last_ms = map(int, told[1]["pid_uses"].split(" ")[1:3])
    assert first_ms == NOW_MS
    assert 60_000 < last_ms - first_ms <= 70_000
    assert int(later["pid_uses"].split(" ")[2]) > last_ms


def test_a_state_that_cannot_be_read_is_quarantined_and_its_principals_learn_instead_of_being_punished() -> None:
    state = State(b"PQL\x01 of an earlier version")

    rows = run(state, frame(list(range(500))))
    other = run(state, frame(list(range(500)), at_ms=WINDOW_MS - 60_000, principal="User:ANONYMOUS"))
    later = run(state, frame(list(range(500)), at_ms=WINDOW_MS + 1000))

    assert [kind for kind, _ in rows] == ["quarantined_events", "producer_id_metrics"]
    assert str(rows[0][1]["reason"]).startswith("ledgers of group 3 lost: ")
    assert "\n" not in str(rows[0][1]["reason"])
    assert [row["phase"] for _, row in rows[1:] + other] == ["learning"] * 2
    assert [kind for kind, _ in later] == ["producer_id_metrics"]


def with_damaged_ledger(forget_ms: int) -> State:
    group = LedgerGroup(state := State())
    group.put("User:a", StoredLedger(forget_ms, 0, b"PQL\x01 of an earlier version"))
    group.store(NOTHING, 1000)
    return state


def refused_and_phase(rows: list[tuple[str, Any]]) -> tuple[int, str]:
    """What the metrics say, and whether nothing was decided without a refusal."""
    (row,) = (row for kind, row in rows if kind == "producer_id_metrics")
    assert bool(row["refused_pids"]) == any(kind == "throttle_decisions" for kind, _ in rows)
    return row["refused_pids"], row["phase"]


FORGOTTEN_AFTER_MS = 13 * WINDOW_MS
"""Eleven windows of samples, a window for plugins that fall behind, and what is left of two quanta."""


def test_a_silent_ledger_that_cannot_be_read_is_no_longer_tracked_either() -> None:
    damaged = with_damaged_ledger(NOW_MS)

    said = say(damaged.times_out(), nothing(), times=come(QUANTUM_MS))

    assert [kind for kind, _ in said] == ["quarantined_events", FORGOTTEN]


def test_an_event_of_a_day_ahead_in_the_same_batch_takes_nobodys_ledger() -> None:
    state = State()
    run(state, frame(list(range(50))))

    day_ahead = frame([7], at_ms=24 * WINDOW_MS, principal="User:b")
    said = run(after := state.next_call(), day_ahead, come(0))
    again = run(after.next_call(), frame(list(range(11)), at_ms=60_000), come(0))

    assert [row["principal"] for _, row in said] == ["User:b"]
    assert [(kind, row["admitted_pids"]) for kind, row in again] == [("producer_id_metrics", 0)]


def test_a_batch_tells_how_far_its_partitions_have_come_and_only_when_they_have() -> None:
    begin_ms = NOW_MS // STEP_MS * STEP_MS
    batch = pd.concat([frame([1]), frame([2], at_ms=STEP_MS, partition=1), frame([3], partition=1)])

    first = say(State(), batch)
    again = say(State(), batch, times={0: begin_ms, 1: begin_ms})

    assert [body for kind, body in first if kind == MAX_EVENT_TIME] == [[0, begin_ms], [1, begin_ms + STEP_MS]]
    assert [body for kind, body in again if kind == MAX_EVENT_TIME] == [[1, begin_ms + STEP_MS]]


def test_bad_records_are_told_in_the_order_of_their_places() -> None:
    places = [("t", 1, 0), ("t", 0, 9), ("t", 0, 10), ("s", 5, 5)]
    packed = [pack(PackedQuarantine([Quarantined(b"", "bad", *place, NOW_MS)])) for place in places]

    rows = run(State(), frame_of([("", each) for each in packed]))

    assert [(row["topic"], row["partition"], row["offset"]) for _, row in rows] == sorted(places)


def test_a_group_that_was_lost_is_removed_even_if_nothing_follows() -> None:
    LedgerGroup(state := State(b"PQL\x01 damaged beyond repair"), Learning(NOW_MS)).store(NOTHING, 1000)

    assert not state.exists


def test_a_repeated_batch_says_the_same_in_whatever_order_its_pre_aggregates_come() -> None:
    state = State()
    run(state, pd.concat([frame(list(range(50)), principal=f"User:{name}") for name in "abc"]))
    parts = [frame([1], FORGOTTEN_AFTER_MS, principal=f"User:{name}", partition=1) for name in "cde"]
    times = come(FORGOTTEN_AFTER_MS)

    attempts = [run(state.next_call(), pd.concat(order), times) for order in (parts, parts[::-1])]

    assert attempts[0] == attempts[1]
    forgotten = [row["principal"] for kind, row in attempts[0] if kind == "producer_id_metrics" and not row["rate"]]
    assert forgotten == ["User:c", "User:a", "User:b"]


def test_a_throttled_group_is_called_in_each_batch_without_being_rewritten_until_the_throttle_is_over() -> None:
    # Given a group of one that is throttled and one that is not.
    state = State()
    run(state, pd.concat([frame(list(range(50))), frame([1], principal="User:b")]))

    # When batches pass without its events while the throttle is in force.
    first = state.times_out(now_ms=2)
    second = first.times_out(now_ms=4)
    calls = [run(each, nothing(), come(0)) for each in (first, second)]

    # Then it is left alone, so Spark calls it again; and once it is over, not.
    assert (state.times_out_ms, calls, [each.updates for each in (first, second)]) == (1, [[], []], [0, 0])
    over = second.times_out(now_ms=6)
    assert run(over, nothing(), come(10 * WINDOW_MS)) == []
    assert (over.updates, over.timeout_ms is not None and over.timeout_ms > WINDOW_MS) == (1, True)


RAISED = Quotas({"a": Limit(100.0, "user", NOW_MS)})


def silent_under_raised(state: State, times: dict[int, int], begin_ms: int) -> list[tuple[str, Any]]:
    """What a batch says that begins under a raised quota, and has no event of the group."""
    operator = operator_of(DEPLOYMENT, KnownBatch("", RAISED, EMPTY, times, begin_ms))
    return [row for part in operator((3,), iter([nothing()]), state) for row in unpack_rows(part["packed"])]


def test_a_quota_of_a_principal_that_is_never_enforced_throttles_nobody() -> None:
    rows = run(State(), frame(list(range(50)), principal="User:ANONYMOUS"))

    assert [(kind, row["refused_pids"]) for kind, row in rows] == [("producer_id_metrics", 0)]


def test_a_throttled_ledger_that_cannot_be_read_waits_for_an_event_to_say_so() -> None:
    group = LedgerGroup(damaged := State())
    group.put("User:a", StoredLedger(NOW_MS + WINDOW_MS, 0, b"PQL\x01 of an earlier version", NOW_MS + 90_000))
    group.store(NOTHING, 1000)

    assert silent_under_raised(damaged.times_out(), come(0), NOW_MS) == []
    assert [kind for kind, _ in run(damaged, frame([1]))] == ["quarantined_events", "producer_id_metrics"]


def test_a_timeout_is_set_with_each_update_and_only_then() -> None:
    state = State()
    run(state, frame([1]), come(0))
    assert state.timeout_ms == pytest.approx(12 * WINDOW_MS, rel=0.05)

    unchanged = state.next_call()
    run(unchanged, frame([1], at_ms=500))
    assert (unchanged.updates, unchanged.timeout_ms) == (0, None)


def test_a_ledger_of_a_partition_whose_time_nobody_knows_yet_is_looked_at_within_a_quantum() -> None:
    run(state := State(), frame([1]))

    assert state.timeout_ms == QUANTUM_MS


def test_a_state_of_silent_principals_that_cannot_be_read_is_removed_and_said() -> None:
    timed_out = State(b"PQL\x01 damaged beyond repair", timed_out=True)

    ((kind, _),) = run(timed_out, nothing())

    assert (kind, timed_out.exists) == ("quarantined_events", False)


def test_an_overflow_entry_tells_the_time_of_its_newest_event_and_is_not_tracked() -> None:
    batch = pd.concat([frame([1], principal="overflow-07"), frame([2], 5, principal="overflow-07", partition=1)])

    rows = say(state := State(), batch)
    last = say(state.times_out(), nothing(), times=come(FORGOTTEN_AFTER_MS, partition=1))

    assert [row for row in rows if row[0] in NOTES] == [(OVERFLOWED, NOW_MS + 5)]
    assert [kind for kind, _ in last] == ["producer_id_metrics"]


def test_an_overflow_entry_stops_growing_long_before_a_principal_does() -> None:
    pids = list(range(50_000))
    entry = dict(say(State(), frame(pids, principal="overflow-07")))["producer_id_metrics"]
    principal = dict(say(State(), frame(pids, principal="User:ANONYMOUS")))["producer_id_metrics"]

    assert (entry["saturated"], principal["saturated"]) == (True, False)
    # The cap, a sketch of 616 bytes, and counts.
    assert entry["state_bytes"] <= OVERFLOW_BYTES + 616 + 300


def test_a_principal_that_comes_out_of_an_overflow_learns_only_pids_that_were_handed_out_by_then() -> None:
    pids, tracked = list(range(3990, 4030)), TrackedPrincipals(b"", overflowed_ms=NOW_MS - 1000)

    rows = say(State(), frame(pids), tracked=tracked, next_producer_id=4000)

    assert refused_and_phase(rows) == (30 - 11, "learning")
