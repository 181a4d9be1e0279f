"""The views that show the cluster as a whole and a principal over time, on rows made by hand."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tables.query.sql_query import query
from tests.unit.jobs.table_rows import NOON, Row, append, decision, metrics, quarantined, seconds


def ask(tables: Path, view: str, now: datetime = NOON) -> list[dict[str, Any]]:
    return query(str(tables), f"TABLE {view}", now).records()


def until(begin_s: float, end_s: float, **values: Any) -> Row:
    """A throttle, or its change, from and to so many seconds after noon."""
    return decision("User:m", NOON + seconds(begin_s), throttled_until=NOON + seconds(end_s), **values)


class TestPrincipalTimeline:
    @pytest.mark.parametrize(
        ("decisions", "throttled"),
        [
            ([until(30, 150), until(170, 170, action="RELEASE")], [False, True, True, False]),
            ([until(0, 60), until(10, 70), until(20, 80)], [False, True, False, False]),
            ([until(0, 600), until(90, 130, reason="quota_changed")], [False, True, True, False]),
        ],
        ids=["at its last change", "renewals make no second row", "a raised quota ends it sooner"],
    )
    def test_an_interval_is_throttled_if_a_throttle_held_at_its_last_change(
        self, tmp_path: Path, decisions: list[Row], throttled: list[bool]
    ) -> None:
        rows = [metrics("User:m", NOON + seconds(60 * minute), admitted_pids=minute) for minute in range(4)]
        append(tmp_path, "producer_id_metrics", *rows, metrics("User:a", NOON + seconds(60)))
        append(tmp_path, "throttle_decisions", *decisions)

        timeline = ask(tmp_path, "principal_timeline")

        assert [(row["principal"], row["admitted_pids"], row["throttled"]) for row in timeline] == [
            ("User:a", 0, False),
            *(("User:m", minute, is_throttled) for minute, is_throttled in enumerate(throttled)),
        ]

    def test_a_throttle_that_began_in_the_tick_of_the_last_change_holds(self, tmp_path: Path) -> None:
        row = metrics("User:m", NOON + seconds(60), as_of=NOON + seconds(20), refused_pids=6)
        append(tmp_path, "producer_id_metrics", row, metrics("User:m", NOON))
        append(tmp_path, "throttle_decisions", decision("User:m", NOON + seconds(24)))

        assert [row["throttled"] for row in ask(tmp_path, "principal_timeline")] == [False, True]


class TestPidBudget:
    def test_shares_are_of_all_new_pids_of_a_day_and_the_greatest_comes_first(self, tmp_path: Path) -> None:
        append(
            tmp_path,
            "producer_id_metrics",
            metrics("User:a", NOON, admitted_pids=25, active_pids=9),
            metrics("User:m", NOON - seconds(60), admitted_pids=20, refused_pids=30, active_pids=3),
            metrics(
                "User:m", NOON, refused_pids=25, new_pids_window=75, active_pids=4, quota=20.0, quota_source="user"
            ),
            metrics("User:old", NOON - seconds(86_400), admitted_pids=1000),
        )

        worst, other = ask(tmp_path, "pid_budget")

        assert (worst["principal"], worst["new_pids"], worst["share"]) == ("User:m", 75, 0.75)
        assert (worst["active_pids"], worst["quota"], worst["quota_source"]) == (4, 20.0, "user")
        assert (other["principal"], other["share"]) == ("User:a", 0.25)


class TestStreamHealth:
    @pytest.fixture
    def tables(self, tmp_path: Path) -> Path:
        for name in ("producer_id_metrics", "throttle_decisions", "quarantined_events"):
            append(tmp_path, name)
        return tmp_path

    def test_of_empty_tables_it_is_one_row_of_nothing(self, tables: Path) -> None:
        (row,) = ask(tables, "stream_health")

        assert row["newest_row_at"] is row["silent_seconds"] is row["newest_batch_id"] is None
        assert {name: row[name] for name in row if row[name]} == {}

    def test_it_counts_the_last_hour_and_says_how_long_the_stream_has_been_silent(self, tables: Path) -> None:
        append(
            tables,
            "producer_id_metrics",
            metrics("User:a", NOON, admitted_pids=6, phase="learning", batch_id=8),
            metrics("User:m", NOON, as_of=NOON - seconds(5), refused_pids=2, late_pids=1, saturated=True, batch_id=7),
            metrics("User:m", NOON, as_of=NOON - seconds(5), refused_pids=2, late_pids=2, saturated=True, batch_id=8),
            metrics("unknown", NOON, admitted_pids=2, batch_id=9),
            metrics("User:old", NOON - seconds(7200), refused_pids=50),
        )
        held = decision("User:m", NOON - seconds(10))
        append(tables, "throttle_decisions", held, decision("User:m", NOON - seconds(4000)))
        append(tables, "quarantined_events", quarantined(NOON), quarantined(NOON - seconds(4000)))

        (row,) = ask(tables, "stream_health", NOON + seconds(20))

        assert (row["newest_row_at"], row["silent_seconds"], row["newest_batch_id"]) == (NOON, 20, 9)
        assert (row["principals"], row["saturated_principals"], row["learning_principals"]) == (3, 1, 1)
        assert (row["refused_hour"], row["late_hour"]) == (2, 3)
        assert (row["throttled_now"], row["decisions_hour"]) == (1, 1)
        assert (row["quarantined_hour"], row["quarantined_total"]) == (1, 2)
