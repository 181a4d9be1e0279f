"""The views of holds, on rows made by hand: who is on hold now, and what stands beside a decision."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tables.query.sql_query import query
from tests.unit.jobs.table_rows import NOON, Row, append, broker_state, confirmed, decision, hold_fact, seconds

AGO = NOON - seconds(10)
THROTTLE = decision("User:m", AGO)


def ask(tables: Path, view: str, now: datetime = NOON) -> list[dict[str, Any]]:
    return query(str(tables), f"TABLE {view}", now).records()


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Tables of a cluster of two live brokers."""
    append(tmp_path, "broker_status", broker_state(1, NOON), broker_state(2, NOON))
    return tmp_path


def status(tables: Path, *rows: Row, now: datetime = NOON) -> dict[str, Any] | None:
    """Return what the view says of User:m after these rows, or None."""
    append(tables, "holds", *rows)
    return next(iter(row for row in ask(tables, "hold_status", now) if row["principal"] == "User:m"), None)


class TestHoldStatus:
    @pytest.mark.parametrize(
        ("rows", "hold", "brokers"),
        [
            ([hold_fact("written", AGO)], "written", 0),
            ([hold_fact("written", AGO), confirmed(1, AGO)], "held", 1),
            ([hold_fact("written", AGO), confirmed(1, AGO), confirmed(2, AGO)], "held", 2),
            # A broker may keep a hold whose record is gone, until it has read the topic.
            ([hold_fact("removed", AGO, until=None), confirmed(1, AGO)], "held", 1),
            # Broker 3 has no plugin that reports.
            ([hold_fact("written", AGO), confirmed(3, AGO)], "written", 0),
            ([hold_fact("would_hold", AGO)], "would be held", 0),
            ([hold_fact("left_out", AGO, reason="--never")], "left out", 0),
            ([hold_fact("would_hold", AGO), hold_fact("written", NOON)], "written", 0),
            ([hold_fact("written", AGO), hold_fact("released", NOON)], "released", 0),
            ([hold_fact("written", AGO), hold_fact("released", NOON, None)], "released", 0),
            ([hold_fact("written", AGO), confirmed(1, AGO), hold_fact("released", NOON)], "held", 1),
            ([hold_fact("released", AGO), hold_fact("release_ended", NOON, until=None)], None, None),
            ([hold_fact("written", AGO), hold_fact("removed", NOON, until=None)], None, None),
            ([confirmed(1, AGO), hold_fact("ended", NOON, broker_id=1, reason="removed")], None, None),
            ([hold_fact("ignored", AGO, None, broker_id=1, reason="too long")], None, None),
            ([hold_fact("written", AGO, "User:other")], None, None),
        ],
        ids=lambda value: (
            " ".join(f"{row['state']}@{row['broker_id']}" for row in value)
            if value and isinstance(value, list)
            else None
        ),
    )
    def test_the_newest_fact_of_each_source_counts(
        self, tables: Path, rows: list[Row], hold: str | None, brokers: int | None
    ) -> None:
        found = status(tables, *rows) or {"hold": None, "confirmed_brokers": None}

        assert (found["hold"], found["confirmed_brokers"]) == (hold, brokers)

    @pytest.mark.parametrize("batches", [(0, 0), (1, 0)], ids=["in one batch", "the later row first"])
    def test_of_two_facts_of_one_moment_the_hold_counts(self, tables: Path, batches: tuple[int, int]) -> None:
        ended = hold_fact("ended", AGO, broker_id=1, reason="removed", batch_id=batches[1])
        found = status(tables, confirmed(1, AGO, batch_id=batches[0]), ended)

        assert found is not None
        assert found["hold"] == "held"

    def test_it_ends_at_its_time_without_a_row(self, tables: Path) -> None:
        rows = [hold_fact("written", AGO), confirmed(1, AGO), hold_fact("would_hold", AGO)]

        assert status(tables, *rows, now=AGO + seconds(59.9)) is not None
        assert status(tables, now=AGO + seconds(60)) is None

    def test_a_hold_has_the_counts_of_all_live_brokers_and_its_first_and_last_moment(self, tables: Path) -> None:
        written = hold_fact("written", AGO, until=NOON + seconds(300), reason="over quota", init_every_ms=3000)
        first = confirmed(1, AGO, held_requests=40, let_in=2, until=NOON + seconds(301))
        renewed = confirmed(1, NOON, since=AGO, held_requests=50, let_in=3, until=NOON + seconds(302), batch_id=1)
        other = confirmed(2, AGO + seconds(1), held_requests=7, let_in=1)

        found = status(tables, written, first, other, renewed)

        assert found is not None
        assert (found["held_requests"], found["let_in"]) == (57, 4)
        assert (found["held_since"], found["hold_ends"]) == (AGO, NOON + seconds(302))
        assert (found["confirmed_brokers"], found["live_brokers"]) == (2, 2)
        assert (found["hold_reason"], found["init_every_ms"]) == ("over quota", 3000)


class TestHoldsNow:
    def test_it_lists_who_is_on_hold_and_says_who_wrote_it(self, tables: Path) -> None:
        append(
            tables,
            "holds",
            hold_fact("written", AGO, "User:long", until=NOON + seconds(500), writer="ops", decision_id=None),
            confirmed(1, AGO, "User:long", writer="ops", decision_id=None),
            hold_fact("written", AGO, "User:new"),
            hold_fact("would_hold", AGO, "User:would"),
            hold_fact("written", AGO, "User:over", until=AGO + seconds(1)),
            hold_fact("written", AGO, "User:let-go"),
            hold_fact("released", NOON, "User:let-go", until=NOON + seconds(3600)),
        )

        rows = {row["principal"]: row for row in ask(tables, "holds_now")}

        assert {name: row["hold"] for name, row in rows.items()} == {
            "User:long": "held",
            "User:let-go": "released",
            "User:new": "written",
        }
        longest = rows["User:long"]
        assert (longest["writer"], longest["decision_id"], longest["seconds_left"]) == ("ops", None, 500)
        assert rows["User:let-go"]["released_until"] == NOON + seconds(3600)
        assert rows["User:new"]["since"] is None


class TestCurrentThrottles:
    def test_a_decision_shows_its_hold(self, tables: Path) -> None:
        append(tables, "throttle_decisions", THROTTLE)
        append(tables, "holds", hold_fact("written", AGO), confirmed(2, AGO, held_requests=9, let_in=1))

        (row,) = ask(tables, "current_throttles")

        assert (row["hold"], row["held_since"], row["hold_ends"]) == ("held", AGO, AGO + seconds(60))
        assert (row["confirmed_brokers"], row["live_brokers"]) == (1, 2)
        assert (row["held_requests"], row["let_in"]) == (9, 1)

    def test_what_is_only_planned_counts_as_long_as_the_throttle(self, tables: Path) -> None:
        append(tables, "throttle_decisions", THROTTLE)
        append(tables, "holds", hold_fact("would_hold", AGO, until=NOON + seconds(600)))
        assert [row["hold"] for row in ask(tables, "current_throttles")] == ["would be held"]

        append(tables, "throttle_decisions", decision("User:m", NOON, action="RELEASE", reason="quota_changed"))

        assert [row["hold"] for row in ask(tables, "current_throttles")] == [None]

    def test_without_a_fact_it_says_nothing_of_holds(self, tables: Path) -> None:
        append(tables, "throttle_decisions", THROTTLE)

        (row,) = ask(tables, "current_throttles")

        assert row["throttled_now"]
        assert row["hold"] is row["held_since"] is row["confirmed_brokers"] is row["held_requests"] is None


HOUR_S = 3600
NEWER = confirmed(1, NOON, writer="ops", decision_id=None, held_requests=5, batch_id=1)
SHORT, LONG = NOON + seconds(600), NOON + seconds(HOUR_S)
TOLD: dict[str, tuple[list[Row], dict[str, Any]]] = {
    "a broker that tells of a newer record counts once": (
        [confirmed(1, AGO, held_requests=4), NEWER],
        {"confirmed_brokers": 1, "held_requests": 5},
    ),
    "a release counts for days": (
        [hold_fact("written", AGO), hold_fact("released", NOON - seconds(24 * HOUR_S), until=LONG)],
        {"hold": "released"},
    ),
    "of two releases the later end counts": (
        [
            hold_fact("written", AGO),
            hold_fact("released", AGO, until=SHORT),
            hold_fact("released", AGO, None, until=LONG),
        ],
        {"released_until": LONG},
    ),
    "why a user is left out": (
        [hold_fact("left_out", AGO, reason="it is never held")],
        {"hold_reason": "it is never held"},
    ),
    "the newest record names writer and decision": (
        [
            confirmed(1, AGO, writer="stream", decision_id="old"),
            hold_fact("would_hold", AGO, decision_id="z"),
            hold_fact("written", NOON, writer="carol", decision_id="new"),
        ],
        {"writer": "carol", "decision_id": "new"},
    ),
}


@pytest.mark.parametrize(("rows", "told"), TOLD.values(), ids=TOLD)
def test_the_status_of_a_hold_tells_of_these_facts(tables: Path, rows: list[Row], told: dict[str, Any]) -> None:
    found = status(tables, *rows)
    assert found is not None
    assert {name: found[name] for name in told} == told


def test_a_plan_after_a_release_counts(tables: Path) -> None:
    append(tables, "throttle_decisions", decision("User:m", AGO - seconds(60), action="RELEASE", reason="recovered"))
    found = status(tables, hold_fact("would_hold", AGO))
    assert found is not None
    assert found["hold"] == "would be held"


def test_a_broker_that_is_silent_is_not_live(tables: Path) -> None:
    append(tables, "broker_status", broker_state(3, NOON - seconds(HOUR_S)))
    found = status(tables, confirmed(1, AGO), confirmed(3, AGO))
    assert found is not None
    assert (found["confirmed_brokers"], found["live_brokers"]) == (1, 2)
