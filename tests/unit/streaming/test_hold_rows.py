"""Rows of the table `holds`, from records of the topic of holds and from the brokers' reports."""

from collections.abc import Sequence
from typing import Any

import pytest

from streaming.reports.hold_rows import COUNTS_MS, MAX_MS, STEP_MS, DatedRecord, DatedReport, HoldWatch, Row, record_row
from wire.holds import EVERYBODY, Hold, HoldRecord, Release
from wire.plugin_reports import HeldPrincipal, HoldReport

AT_MS = 1_790_000_000_000
HOLD = Hold(
    cluster_id="c", hold_ms=60_000, until_ms=AT_MS, init_every_ms=3_000, decision_id="d", reason="over", writer="s"
)


def held(principal: str = "User:m", **fields: Any) -> HeldPrincipal:
    usual: dict[str, Any] = {"since_ms": AT_MS, "ends_ms": AT_MS + 600_000, "decision_id": "d", "writer": "s"}
    return HeldPrincipal(principal=principal, **usual | fields)


def report(
    *holds: HeldPrincipal, after_ms: int = 0, broker_id: int = 1, ahead_ms: int = 0, **fields: Any
) -> DatedReport:
    """A report that a broker wrote `after_ms` after the first one, by a clock that may be ahead."""
    at_ms = AT_MS + after_ms
    common: dict[str, Any] = {"timestamp_ms": at_ms + ahead_ms, "broker_id": broker_id, "cluster_id": "c"}
    return DatedReport(HoldReport(held=list(holds), **common, **fields), at_ms)


def rows_of(watch: HoldWatch, *reports: DatedReport) -> list[Row]:
    rows = watch.rows([], reports)
    watch.written()
    return rows


def states(rows: Sequence[Row]) -> list[str]:
    return [row["state"] for row in rows]


class TestRecords:
    @pytest.mark.parametrize(
        ("record", "row"),
        [
            (
                HoldRecord("User:m", is_release=False, content=HOLD),
                {
                    "state": "written",
                    "principal": "User:m",
                    "decision_id": "d",
                    "until": AT_MS + 60_000,
                    "writer": "s",
                    "reason": "over",
                    "init_every_ms": 3_000,
                },
            ),
            (
                HoldRecord("User:m", is_release=False, content=Hold(cluster_id="c", hold_ms=1, until_ms=0, writer="o")),
                {
                    "state": "written",
                    "principal": "User:m",
                    "decision_id": None,
                    "until": AT_MS + 1,
                    "writer": "o",
                    "reason": None,
                    "init_every_ms": None,
                },
            ),
            (HoldRecord("User:m", is_release=False, content=None), {"state": "removed", "principal": "User:m"}),
            (HoldRecord("*", is_release=False, content=None), {"state": "removed", "principal": "*"}),
            (
                HoldRecord(EVERYBODY, is_release=True, content=Release(cluster_id="c", release_ms=5, by="ops")),
                {"state": "released", "principal": None, "until": AT_MS + 5, "writer": "ops"},
            ),
            (HoldRecord("User:m", is_release=True, content=None), {"state": "release_ended", "principal": "User:m"}),
        ],
    )
    def test_a_record_is_a_row(self, record: HoldRecord, row: Row) -> None:
        assert record_row(DatedRecord(record, AT_MS)) == {"recorded_at": AT_MS, **row}


class TestReports:
    def test_a_hold_in_force_is_a_row_of_its_broker(self) -> None:
        (row,) = rows_of(HoldWatch(), report(held(held_requests=7, let_in=2), after_ms=50))

        assert row == {
            "recorded_at": AT_MS + 50,
            "state": "in_force",
            "principal": "User:m",
            "decision_id": "d",
            "broker_id": 1,
            "since": AT_MS,
            "until": AT_MS + 600_000,
            "writer": "s",
            "reason": None,
            "held_requests": 7,
            "let_in": 2,
        }

    def test_times_of_a_broker_whose_clock_is_ahead_are_put_right(self) -> None:
        ahead_ms = 3_600_000
        (row,) = rows_of(
            HoldWatch(), report(held(since_ms=AT_MS + ahead_ms, ends_ms=AT_MS + ahead_ms + 9_000), ahead_ms=ahead_ms)
        )

        assert (row["recorded_at"], row["since"], row["until"]) == (AT_MS, AT_MS, AT_MS + 9_000)

    def test_a_time_that_no_table_takes_is_cut(self) -> None:
        (row,) = rows_of(HoldWatch(), report(held(since_ms=0, ends_ms=MAX_MS), ahead_ms=-AT_MS))

        assert (row["since"], row["until"]) == (AT_MS, MAX_MS)

    def test_a_report_without_news_makes_no_row(self) -> None:
        watch = HoldWatch()
        moved = held(ends_ms=AT_MS + 600_000 + STEP_MS - 1, since_ms=AT_MS - STEP_MS + 1)
        reports = [report(held()), *(report(moved, after_ms=10_000 * number) for number in range(30))]

        assert states(rows_of(watch, *reports[:2])) == ["in_force"]
        assert rows_of(watch, *reports[2:]) == []

    @pytest.mark.parametrize(
        "news",
        [
            {"ends_ms": AT_MS + 600_000 + STEP_MS},
            {"decision_id": "other"},
            {"writer": "other"},
            {"since_ms": AT_MS + 9_000},
        ],
        ids=lambda news: next(iter(news)),
    )
    def test_a_change_makes_a_row_at_once(self, news: dict[str, Any]) -> None:
        rows = rows_of(HoldWatch(), report(held()), report(held(**news), after_ms=1), report(held(**news), after_ms=2))

        assert [row["recorded_at"] - AT_MS for row in rows] == [0, 1]

    def test_new_counts_make_a_row_a_minute(self) -> None:
        reports = [report(held(held_requests=n), after_ms=n * 10_000) for n in range(19)]

        rows = rows_of(HoldWatch(), *reports)

        assert [row["recorded_at"] - AT_MS for row in rows] == [0, COUNTS_MS, 2 * COUNTS_MS, 3 * COUNTS_MS]
        assert [row["held_requests"] for row in rows] == [0, 6, 12, 18]

    def test_each_broker_and_principal_has_its_own_rows(self) -> None:
        both = (held(), held("User:n"))

        rows = rows_of(HoldWatch(), report(*both), report(*both, broker_id=2), report(*both))

        assert [(row["broker_id"], row["principal"]) for row in rows] == [
            (1, "User:m"),
            (1, "User:n"),
            (2, "User:m"),
            (2, "User:n"),
        ]

    @pytest.mark.parametrize("reason", ["expired", "removed", "released", "limit"])
    def test_an_end_is_a_row_with_its_reason_and_the_last_counts(self, reason: str) -> None:
        watch = HoldWatch()
        rows_of(watch, report(held()))

        (row,) = rows_of(watch, report(held(ended=reason, held_requests=5), after_ms=100), report(after_ms=10_000))

        assert (row["state"], row["reason"], row["held_requests"]) == ("ended", reason, 5)
        # A hold that was taken back earlier has ended now.
        assert row["until"] == AT_MS + 100

    def test_a_hold_that_ended_and_began_again_is_in_force(self) -> None:
        watch = HoldWatch()
        rows_of(watch, report(held()))
        again = report(held(since_ms=AT_MS + 5_000), held(ended="removed"), after_ms=6_000)

        assert states(rows_of(watch, again)) == ["ended", "in_force"]
        assert rows_of(watch, report(held(since_ms=AT_MS + 5_000), after_ms=7_000)) == []

    def test_a_hold_that_a_broker_no_longer_reports_has_ended_there_alone(self) -> None:
        watch = HoldWatch()
        rows_of(watch, report(held()), report(held(), broker_id=2))

        (row,) = rows_of(watch, report(after_ms=10), report(after_ms=20))

        assert (row["state"], row["broker_id"], row["reason"]) == ("ended", 1, "not reported")

    def test_an_ignored_record_is_a_row_until_another_one_is_ignored(self) -> None:
        texts: list[str | None] = [
            "User:m: too long",
            "User:m: too long",
            "User:n: version 9",
            None,
            "User:n: version 9",
        ]

        rows = rows_of(HoldWatch(), *(report(after_ms=n, ignored=text) for n, text in enumerate(texts)))

        assert [(row["state"], row["recorded_at"] - AT_MS) for row in rows] == [
            ("ignored", 0),
            ("ignored", 2),
            ("ignored", 4),
        ]
        assert rows[1]["reason"] == "User:n: version 9"

    def test_rows_that_were_not_written_come_again(self) -> None:
        watch = HoldWatch()
        reports = [report(held(), ignored="User:n: version 9")]

        first = watch.rows([], reports)

        assert watch.rows([], reports) == first
        assert states(first) == ["in_force", "ignored"]
        watch.written()
        assert watch.rows([], reports) == []


def test_a_report_that_a_newer_one_overtook_ends_nothing() -> None:
    watch = HoldWatch()
    rows_of(watch, report(held(), after_ms=10_000))
    assert rows_of(watch, report(after_ms=5_000)) == []


def test_the_clock_of_one_broker_overtakes_no_other() -> None:
    rows = rows_of(HoldWatch(), report(held(), after_ms=5_000), report(held(), broker_id=2, ahead_ms=-1_000))
    assert [row["broker_id"] for row in rows] == [1, 2]


def test_each_broker_tells_what_it_ignores() -> None:
    rows = rows_of(HoldWatch(), report(ignored="x"), report(ignored="x", broker_id=2))
    assert [row["broker_id"] for row in rows] == [1, 2]


def test_what_was_let_in_is_news_too() -> None:
    rows = rows_of(HoldWatch(), report(held()), report(held(let_in=1), after_ms=COUNTS_MS))
    assert states(rows) == ["in_force", "in_force"]
