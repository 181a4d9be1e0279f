"""The operator with Spark's own `GroupState`."""

import pandas as pd
import pyarrow as pa
import pytest
from group_state_kit import State

from quota.config import QuotaConfig
from state.events import Deployment
from streaming import operator
from streaming.operator import operate
from streaming.quotas import Quota, Quotas
from streaming.roster import FORGOTTEN, NOTES, OVERFLOWED, TRACKED, Roster, code_of
from streaming.rows import unpack_rows
from streaming.table_specs import TABLES
from streaming.tally import tally_events

NOW_MS = 1_790_000_000_000
DEPLOYMENT = Deployment(QuotaConfig(), salt=5)
EMPTY = Roster()
QUOTAS = Quotas({"a": Quota(10.0, NOW_MS), "super": Quota(10.0, NOW_MS)})


@pytest.fixture(autouse=True)
def a_fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator, "reached", operator.EventTime())


def frame(pids: list[int], at_ms: int = 0) -> pd.DataFrame:
    size = len(pids)
    events = pa.table(
        {
            "timestamp_ms": pa.array([NOW_MS + at_ms] * size, pa.int64()),
            "principal": ["User:a"] * size,
            "producer_id": pa.array(pids, pa.int64()),
            "client_id": ["app"] * size,
            "correction": [False] * size,
            "learning": [False] * size,
            "partition": pa.array([0] * size, pa.int32()),
            "offset": pa.array(range(size), pa.int64()),
        }
    )
    ((_, packed),) = tally_events(events, DEPLOYMENT.config.quantum_ms)
    return pd.DataFrame({"packed": [packed]})


def say(
    state: State, rows: pd.DataFrame, principal: str = "User:a", roster: Roster = EMPTY
) -> list[tuple[str, dict[str, object]]]:
    """All that comes out, notes for the roster too."""
    never_enforced = frozenset({"User:super"})
    output = operate(DEPLOYMENT, never_enforced, (principal,), iter([rows]), state, lambda: roster, lambda: QUOTAS)
    return [row for part in output for row in unpack_rows(part["packed"])]


def run(state: State, rows: pd.DataFrame, principal: str = "User:a") -> list[tuple[str, dict[str, object]]]:
    """What goes to tables."""
    return [(kind, body) for kind, body in say(state, rows, principal) if kind not in NOTES]


def test_rows_have_exactly_the_columns_of_their_tables() -> None:
    rows = dict(run(State(), frame(list(range(50)))))

    assert set(rows) == {"throttle_decisions", "producer_id_metrics"}
    for table, body in rows.items():
        columns = set(TABLES[table].schema.names) - {"batch_id"}
        assert set(body) == columns


def test_state_is_not_written_when_nothing_changed() -> None:
    state = State()
    run(state, frame([1]))

    assert run(state, frame([1], at_ms=500)) == []
    assert state.updates == 1


def test_a_principal_that_is_never_enforced_is_reported_without_a_quota() -> None:
    ((kind, row),) = run(State(), frame(list(range(50))), principal="User:super")

    assert (kind, row["quota_source"], row["admitted_pids"]) == ("producer_id_metrics", "none", 50)


def test_a_lost_ledger_is_quarantined_and_its_principal_learns_again_instead_of_being_punished() -> None:
    state = State(b"PQL\x01 damaged beyond repair")

    rows = run(state, frame(list(range(500))))
    later = run(state, frame(list(range(500)), at_ms=DEPLOYMENT.config.window_ms + 1000))

    assert [kind for kind, _ in rows] == ["quarantined_events", "producer_id_metrics"]
    assert str(rows[0][1]["reason"]).startswith("ledger of User:a lost: ")
    assert rows[1][1]["phase"] == "learning"
    assert [kind for kind, _ in later] == ["producer_id_metrics"]


def test_a_ledger_that_has_expired_is_removed_with_a_last_row_of_rate_0() -> None:
    silent = State()
    run(silent, frame(list(range(50))))
    run(State(), frame([1], at_ms=12 * DEPLOYMENT.config.window_ms), principal="User:b")

    noted = silent.times_out()
    assert run(noted, pd.DataFrame()) == []
    timed_out = noted.times_out()
    (release, last) = run(timed_out, pd.DataFrame())

    assert not timed_out.exists
    assert release[1]["action"] == "RELEASE"
    assert (last[0], last[1]["rate"], last[1]["tokens"], last[1]["active_pids"]) == ("producer_id_metrics", 0, 10, 0)


def test_what_a_process_has_met_never_shows_in_the_output_of_the_same_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = State()
    run(silent, frame(list(range(50))))
    run(State(), frame([1], at_ms=12 * DEPLOYMENT.config.window_ms), principal="User:b")
    noted = silent.times_out()
    first = run(noted, pd.DataFrame())

    # Killed before the commit: the batch is repeated by a process that has met nothing.
    monkeypatch.setattr(operator, "reached", operator.EventTime())
    assert run(silent.times_out(), pd.DataFrame()) == first == []
    # Committed, then killed: what was noted is acted on all the same, each time alike.
    rows = [run(noted.times_out(), pd.DataFrame()) for _ in range(2)]
    assert rows[0] == rows[1]
    assert rows[0][-1][1]["rate"] == 0


def test_a_ledger_noted_as_expired_is_the_same_ledger_if_an_event_comes_after_all() -> None:
    silent = State()
    run(silent, frame(list(range(50))))
    run(State(), frame([1], at_ms=12 * DEPLOYMENT.config.window_ms), principal="User:b")
    noted = silent.times_out()
    run(noted, pd.DataFrame())
    late = frame([1], at_ms=12 * DEPLOYMENT.config.window_ms)

    assert run(noted.next_call(), late) == run(silent.next_call(), late)


def test_a_ledger_whose_events_may_still_come_is_kept_and_asked_again() -> None:
    silent = State()
    run(silent, frame(list(range(50))))

    timed_out = silent.times_out()

    assert run(timed_out, pd.DataFrame()) == []
    assert timed_out.stored == silent.stored
    assert timed_out.timeout_ms is not None


def test_a_timeout_is_set_with_each_update_and_only_then() -> None:
    state = State()
    run(state, frame([1]))
    assert state.timeout_ms == pytest.approx(11 * DEPLOYMENT.config.window_ms, rel=0.01)

    unchanged = state.next_call()
    run(unchanged, frame([1], at_ms=500))
    assert (unchanged.updates, unchanged.timeout_ms) == (0, None)


def test_an_expired_ledger_that_cannot_be_read_is_removed_and_said() -> None:
    timed_out = State(b"PQL\x01 damaged beyond repair", timed_out=True)

    ((kind, _),) = run(timed_out, pd.DataFrame())

    assert (kind, timed_out.exists) == ("quarantined_events", False)


def test_the_roster_is_told_of_a_principals_first_and_last_appearance_and_of_nothing_between() -> None:
    state = State()
    first = say(state, frame([1]))
    between = say(state, frame([2], at_ms=60_000))
    run(State(), frame([1], at_ms=12 * DEPLOYMENT.config.window_ms), principal="User:b")
    noted = state.times_out()
    say(noted, pd.DataFrame())
    last = say(noted.times_out(), pd.DataFrame())

    notes = [[(kind, body) for kind, body in rows if kind in NOTES] for rows in (first, between, last)]
    assert notes == [[(TRACKED, code_of("User:a"))], [], [(FORGOTTEN, code_of("User:a"))]]


def test_an_overflow_entry_tells_its_time_and_is_on_no_roster() -> None:
    rows = say(State(), frame([1], at_ms=5), principal="overflow-07")

    assert [row for row in rows if row[0] in NOTES] == [(OVERFLOWED, NOW_MS + 5)]


def test_a_principal_that_comes_out_of_an_overflow_learns_since_nobody_remembered_its_pids() -> None:
    pids, roster = list(range(50)), Roster(b"", overflowed_ms=NOW_MS - 1000)

    learning = say(State(), frame(pids), roster=roster)
    long_after = say(State(), frame(pids, at_ms=DEPLOYMENT.config.window_ms), roster=roster)

    assert "throttle_decisions" not in dict(learning)
    assert dict(learning)["producer_id_metrics"]["phase"] == "learning"
    assert "throttle_decisions" in dict(long_after)
