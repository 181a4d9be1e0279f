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


HOUR_S = 3600
SHORT, LONG = NOON + seconds(600), NOON + seconds(HOUR_S)
RECORDED = hold_fact("written", AGO)
WITHOUT: dict[str, Any] = {"until": None}


def told(hold: str | None, brokers: int = 0, **more: Any) -> dict[str, Any]:
    return {"hold": hold, "confirmed_brokers": brokers, **more}


STATUS: dict[str, tuple[list[Row], dict[str, Any]]] = {
    "a record": ([RECORDED], told("written")),
    "a broker": ([RECORDED, confirmed(1, AGO)], told("held", 1)),
    "two brokers": ([RECORDED, confirmed(1, AGO), confirmed(2, AGO)], told("held", 2)),
    "a broker keeps a hold until it has read that the record is gone": (
        [hold_fact("removed", AGO, **WITHOUT), confirmed(1, AGO)],
        told("held", 1),
    ),
    "a broker without a plugin is not live": ([RECORDED, confirmed(4, AGO)], told("written", live_brokers=2)),
    "a silent broker is not live": ([confirmed(1, AGO), confirmed(3, AGO)], told("held", 1, live_brokers=2)),
    "a plan": ([hold_fact("would_hold", AGO)], told("would be held")),
    "why a user is left out": (
        [hold_fact("left_out", AGO, reason="--never")],
        told("left out", hold_reason="--never"),
    ),
    "a record after a plan": ([hold_fact("would_hold", AGO), hold_fact("written", NOON)], told("written")),
    "a release": ([RECORDED, hold_fact("released", NOON)], told("released")),
    "a release of everybody": ([RECORDED, hold_fact("released", NOON, None)], told("released")),
    "a release that a broker has not read": (
        [RECORDED, confirmed(1, AGO), hold_fact("released", NOON)],
        told("held", 1),
    ),
    "a release that ended": ([hold_fact("released", AGO), hold_fact("release_ended", NOON, **WITHOUT)], {}),
    "a removed record": ([RECORDED, hold_fact("removed", NOON, **WITHOUT)], {}),
    "a broker that ended it": ([confirmed(1, AGO), hold_fact("ended", NOON, broker_id=1, reason="removed")], {}),
    "an ignored record": ([hold_fact("ignored", AGO, None, broker_id=1, reason="too long")], {}),
    "another principal": ([hold_fact("written", AGO, "User:other")], {}),
    "of two facts of one moment and batch the hold counts": (
        [confirmed(1, AGO), hold_fact("ended", AGO, broker_id=1, reason="removed")],
        told("held", 1),
    ),
    "of two facts of one moment the later batch counts": (
        [confirmed(1, AGO, batch_id=1), hold_fact("ended", AGO, broker_id=1, reason="removed")],
        told("held", 1),
    ),
    "a broker that tells of a newer record counts once": (
        [
            confirmed(1, AGO, held_requests=4),
            confirmed(1, NOON, writer="ops", decision_id=None, held_requests=5, batch_id=1),
        ],
        told("held", 1, held_requests=5),
    ),
    "a release counts for days": (
        [RECORDED, hold_fact("released", NOON - seconds(24 * HOUR_S), until=LONG)],
        told("released"),
    ),
    "of two releases the later end counts": (
        [RECORDED, hold_fact("released", AGO, until=SHORT), hold_fact("released", AGO, None, until=LONG)],
        told("released", released_until=LONG),
    ),
    "the newest record names writer and decision": (
        [
            confirmed(1, AGO, writer="stream", decision_id="old"),
            hold_fact("would_hold", AGO, decision_id="z"),
            hold_fact("written", NOON, writer="carol", decision_id="new"),
        ],
        told("held", 1, writer="carol", decision_id="new"),
    ),
    "counts of all live brokers, the first and the last moment": (
        [
            hold_fact("written", AGO, until=NOON + seconds(300), reason="over quota", init_every_ms=3000),
            confirmed(1, AGO, held_requests=40, let_in=2, until=NOON + seconds(301)),
            confirmed(2, AGO + seconds(1), held_requests=7, let_in=1),
            confirmed(1, NOON, since=AGO, held_requests=50, let_in=3, until=NOON + seconds(302), batch_id=1),
        ],
        told(
            "held",
            2,
            held_requests=57,
            let_in=4,
            held_since=AGO,
            hold_ends=NOON + seconds(302),
            live_brokers=2,
            hold_reason="over quota",
            init_every_ms=3000,
        ),
    ),
}


class TestHoldStatus:
    @pytest.mark.parametrize(("rows", "expected"), STATUS.values(), ids=STATUS)
    def test_the_newest_fact_of_each_source_counts(
        self, tables: Path, rows: list[Row], expected: dict[str, Any]
    ) -> None:
        append(tables, "broker_status", broker_state(3, NOON - seconds(HOUR_S)))
        found = status(tables, *rows) or {}
        assert {name: found.get(name) for name in expected or found} == expected

    def test_it_ends_at_its_time_without_a_row(self, tables: Path) -> None:
        rows = [RECORDED, confirmed(1, AGO), hold_fact("would_hold", AGO)]

        assert status(tables, *rows, now=AGO + seconds(59.9)) is not None
        assert status(tables, now=AGO + seconds(60)) is None

    def test_a_plan_after_a_release_counts(self, tables: Path) -> None:
        released = decision("User:m", AGO - seconds(60), action="RELEASE", reason="recovered")
        append(tables, "throttle_decisions", released)
        assert (status(tables, hold_fact("would_hold", AGO)) or {})["hold"] == "would be held"


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
