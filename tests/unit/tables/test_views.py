"""The views of `sql/views` on rows made by hand, at a time of the test's choice."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from quota.config import QuotaConfig
from tables.query.sql_query import query
from tables.schema.catalog_views import column_comments
from tables.schema.specs import TABLES
from tables.schema.views import main, needed_views, view_statements, views
from tables.store.open import open_store
from tables.store.values import StreamSettings
from tests.unit.jobs.table_rows import NOON, Row, append, broker_state, decision, metrics, seconds


def ask(tables: Path, sql: str, now: datetime = NOON) -> list[dict[str, Any]]:
    return query(str(tables), sql, now).records()


def test_the_script_for_spark_creates_each_view_after_those_it_reads(capsys: pytest.CaptureFixture[str]) -> None:
    statements = view_statements(QuotaConfig().window_ms)

    main()

    assert capsys.readouterr().out.endswith(";\n\n".join(statements) + ";\n")
    names = [statement.split()[4] for statement in statements]
    assert names[0] == "settings"
    assert set(names[1:]) == set(views())
    for number, name in enumerate(names[1:], start=1):
        assert set(needed_views(f"TABLE {name}")) <= set(names[: number + 1])


def test_a_view_that_only_a_comment_names_is_not_needed() -> None:
    assert "without enforcement" in views()["pid_budget"]
    assert "enforcement" not in needed_views("TABLE pid_budget")


@pytest.mark.parametrize("view", [view for view in views() if view != "stream_health"])
def test_a_view_of_empty_tables_is_empty_and_its_columns_have_comments(tmp_path: Path, view: str) -> None:
    append(tmp_path, "throttle_decisions")
    answer = query(str(tmp_path), f"TABLE {view}", NOON)
    assert answer.records() == []
    assert set(answer.columns) <= set(column_comments(view))


def test_of_an_interval_s_rows_the_newest_by_time_then_by_batch_holds(tmp_path: Path) -> None:
    append(
        tmp_path,
        "producer_id_metrics",
        metrics("User:a", NOON, as_of=NOON - seconds(9), admitted_pids=1, batch_id=7),
        metrics("User:a", NOON, as_of=NOON - seconds(5), admitted_pids=3, batch_id=9),
        metrics("User:a", NOON, as_of=NOON - seconds(5), admitted_pids=2, batch_id=8),
        metrics("User:b", NOON, admitted_pids=5),
        metrics("User:a", NOON + seconds(60), admitted_pids=4),
    )
    rows = ask(tmp_path, "SELECT window_end, admitted_pids FROM principal_metrics ORDER BY admitted_pids")
    assert [row["admitted_pids"] for row in rows] == [3, 4, 5]


class TestCurrentThrottles:
    def test_a_throttle_holds_until_its_time_has_passed_and_needs_no_release_row(self, tmp_path: Path) -> None:
        append(tmp_path, "throttle_decisions", decision("User:m", NOON))

        def at(passed: float) -> tuple[bool, float]:
            (row,) = ask(tmp_path, "SELECT * FROM current_throttles", NOON + seconds(passed))
            return row["throttled_now"], row["seconds_left"]

        assert at(0) == (True, 60)
        assert at(59.5) == (True, 0.5)
        assert at(60) == (False, 0)
        assert at(86_400) == (False, 0)

    def test_the_latest_decision_counts(self, tmp_path: Path) -> None:
        append(
            tmp_path,
            "throttle_decisions",
            decision("User:renewed", NOON, batch_id=1),
            decision("User:renewed", NOON + seconds(60), refused_pids=9, addresses=[("10.0.0.8", 9)], batch_id=2),
            decision("User:released", NOON, batch_id=1),
            decision("User:released", NOON + seconds(60), action="RELEASE", batch_id=3),
        )
        rows = ask(tmp_path, "SELECT * FROM current_throttles", NOON + seconds(61))
        assert [(row["principal"], row["throttled_now"], row["refused_pids"]) for row in rows] == [
            ("User:renewed", True, 9),
            ("User:released", False, 1),
        ]
        assert [row["addresses"] for row in rows] == [{"10.0.0.8": 9}, {"10.0.0.7": 1}]

    def test_a_throttle_at_the_time_of_the_release_before_it_is_the_later_one(self, tmp_path: Path) -> None:
        until = NOON + seconds(60)
        append(
            tmp_path,
            "throttle_decisions",
            decision("User:m", until, action="THROTTLE", batch_id=5),
            decision("User:m", until, action="RELEASE", throttled_until=until, batch_id=5),
        )
        (row,) = ask(tmp_path, "SELECT * FROM current_throttles", until)
        assert (row["action"], row["throttled_now"]) == ("THROTTLE", True)

    @pytest.mark.parametrize(
        ("decided", "rows", "after_s", "tokens"),
        [
            ({"tokens": -2.0}, [], 0, -2),
            ({"tokens": -2.0}, [], 120, 0),
            ({"tokens": -2.0}, [], 1_000_000, 60),
            ({"tokens": -2.0, "burst": 600.0}, [], 60 * 700, 600),
            ({"burst": 600.0}, [{"tokens": -2.0, "burst": 600.0}], 60 * 700, 600),
            ({"burst": 600.0}, [{"tokens": -2.0, "burst": 600.0}], 60 * 300, 298),
            # Tokens that were spent since the decision are gone.
            ({}, [{"tokens": 9.0}, {"after_s": 240, "tokens": -0.5, "as_of": NOON + seconds(200)}], 220, -1 / 6),
            # The row of the decision's own batch is as of the start of its tick.
            ({"after_s": 5, "batch_id": 7}, [{"after_s": 60, "tokens": -0.5, "as_of": NOON, "batch_id": 7}], 15, -0.25),
        ],
    )
    def test_tokens_are_refilled_to_now_by_the_quota_up_to_the_burst_as_in_the_headroom(
        self, tmp_path: Path, decided: Row, rows: list[Row], after_s: float, tokens: float
    ) -> None:
        def at_noon(row: Row) -> tuple[datetime, Row]:
            values = {"quota": 60.0, **row}
            return NOON + seconds(values.pop("after_s", 0)), values

        at, values = at_noon(decided)
        append(tmp_path, "throttle_decisions", decision("User:m", at, **values))
        dated = map(at_noon, rows)
        append(tmp_path, "producer_id_metrics", *(metrics("User:m", at, **values) for at, values in dated))

        for view in ("current_throttles", "quota_headroom") if rows else ("current_throttles",):
            (row,) = ask(tmp_path, f"TABLE {view}", NOON + seconds(after_s))
            assert row["tokens_now"] == pytest.approx(tokens)

    def test_a_metrics_row_of_before_the_decision_says_nothing_of_its_tokens(self, tmp_path: Path) -> None:
        append(tmp_path, "throttle_decisions", decision("User:m", NOON, quota=60.0, tokens=-1.0))
        append(tmp_path, "producer_id_metrics", metrics("User:m", NOON - seconds(60), tokens=9.0, batch_id=-1))
        open_store(str(tmp_path)).write_settings(StreamSettings(window_seconds=60))
        (throttle,) = ask(tmp_path, "TABLE current_throttles", NOON + seconds(30))
        assert throttle["tokens_now"] == 29

    @pytest.mark.parametrize(("burst", "room"), [(600.0, 600), (20.0, 60)])
    def test_the_larger_of_quota_and_burst_is_the_room_and_the_quota_alone_refills(
        self, tmp_path: Path, burst: float, room: int
    ) -> None:
        own = {"quota": 60.0, "tokens": -2.0, "burst": burst, "new_pids_window": 30}
        append(tmp_path, "producer_id_metrics", metrics("User:m", NOON, **own))

        (row,) = ask(tmp_path, "TABLE quota_headroom", NOON)

        assert (row["headroom_pids"], row["used_share"], row["throttle_time_ms_now"]) == (room - 30, 30 / room, 120_000)


class TestQuotaHeadroom:
    def test_a_silent_principal_s_tokens_and_window_are_brought_to_now(self, tmp_path: Path) -> None:
        row = metrics("User:a", NOON, as_of=NOON, quota=100.0, tokens=-1.0, new_pids_window=80)
        append(tmp_path, "producer_id_metrics", row)

        (fresh,) = ask(tmp_path, "SELECT * FROM quota_headroom", NOON)
        assert (fresh["tokens_now"], fresh["headroom_pids"], fresh["used_share"]) == (-1, 20, 0.8)
        assert (fresh["throttle_time_ms_now"], fresh["age_seconds"]) == (36_000, 0)

        (silent,) = ask(tmp_path, "SELECT * FROM quota_headroom", NOON + seconds(3600))
        assert (silent["tokens_now"], silent["headroom_pids"], silent["used_share"]) == (99, 100, 0)
        assert (silent["throttle_time_ms_now"], silent["age_seconds"]) == (0, 3600)

    def test_without_a_quota_there_is_no_headroom_to_tell(self, tmp_path: Path) -> None:
        row = metrics("User:a", NOON, quota=None, tokens=None, quota_source="none", new_pids_window=80)
        append(tmp_path, "producer_id_metrics", row, metrics("User:b", NOON, new_pids_window=1))
        rows = ask(tmp_path, "SELECT * FROM quota_headroom")
        assert [row["principal"] for row in rows] == ["User:b", "User:a"]
        assert rows[1]["headroom_pids"] is rows[1]["tokens_now"] is rows[1]["used_share"] is None
        assert rows[1]["new_pids_window"] == 80

    def test_only_the_newest_interval_counts(self, tmp_path: Path) -> None:
        append(
            tmp_path,
            "producer_id_metrics",
            metrics("User:a", NOON - seconds(60), new_pids_window=1),
            metrics("User:a", NOON, new_pids_window=2),
        )
        assert [row["new_pids_window"] for row in ask(tmp_path, "SELECT * FROM quota_headroom")] == [2]


class TestTopOffenders:
    def test_counts_of_the_intervals_add_up_and_the_worst_comes_first(self, tmp_path: Path) -> None:
        # Twelve were refused in two quanta of a window, none of them twice.
        append(
            tmp_path,
            "producer_id_metrics",
            metrics("User:good", NOON, admitted_pids=3),
            metrics("User:bad", NOON - seconds(60), admitted_pids=20, refused_pids=5),
            metrics("User:bad", NOON, refused_pids=4, new_pids_window=29, batch_id=1),
            metrics("User:bad", NOON, refused_pids=7, new_pids_window=32, batch_id=2),
        )
        append(tmp_path, "throttle_decisions", decision("User:bad", NOON), decision("User:bad", NOON - seconds(300)))
        rows = ask(tmp_path, "SELECT * FROM top_offenders", NOON + seconds(1))
        assert [(row["principal"], row["admitted_pids"], row["refused_pids"]) for row in rows] == [
            ("User:bad", 20, 12),
            ("User:good", 3, 0),
        ]
        assert [(row["throttles"], row["throttled_now"]) for row in rows] == [(2, True), (0, False)]

    def test_nobody_is_throttled_by_what_a_removed_quota_has_ended(self, tmp_path: Path) -> None:
        append(tmp_path, "producer_id_metrics", metrics("User:m", NOON, refused_pids=5))
        append(
            tmp_path,
            "throttle_decisions",
            decision("User:m", NOON, throttled_until=NOON + seconds(600)),
            decision("User:m", NOON + seconds(9), throttled_until=NOON + seconds(500), reason="quota_changed"),
            decision(
                "User:m",
                NOON + seconds(10),
                action="RELEASE",
                throttled_until=NOON + seconds(10),
                reason="quota_changed",
            ),
        )
        for view in ("top_offenders", "current_throttles"):
            (row,) = ask(tmp_path, f"TABLE {view}", NOON + seconds(11))
            assert (row["throttled_now"], row.get("throttles", 1)) == (False, 1)

    def test_what_is_older_than_brokers_keep_producer_ids_is_left_out(self, tmp_path: Path) -> None:
        append(tmp_path, "producer_id_metrics", metrics("User:old", NOON - seconds(86_400), refused_pids=5))
        append(tmp_path, "throttle_decisions")
        assert ask(tmp_path, "SELECT * FROM top_offenders") == []


def test_a_flood_within_the_debt_is_counted_exactly(tmp_path: Path) -> None:
    # Who is refused tries again, and counts in each quantum's row again, until it is settled.
    first = metrics(
        "User:m", NOON - seconds(900), admitted_pids=101, owed_pids=60, refused_pids=60, new_pids_window=161
    )
    rest = metrics("User:m", NOON, owed_pids=40, refused_pids=40, new_pids_window=201)
    append(tmp_path, "producer_id_metrics", first, rest)
    append(tmp_path, "throttle_decisions")

    (day,) = ask(tmp_path, "TABLE new_pids_per_day")

    assert (day["new_pids"], day["refused_pids"], day["owed_pids"]) == (201, 100, 100)
    assert day["refused_pids_at_least"] == day["refused_pids_at_most"] == 100


class TestBrokerCoverage:
    def test_a_broker_is_watched_while_its_plugin_reports_and_has_not_stopped(self, tmp_path: Path) -> None:
        append(
            tmp_path,
            "broker_status",
            broker_state(1, NOON, batch_id=1),
            broker_state(2, NOON - seconds(600), batch_id=1),
            broker_state(3, NOON - seconds(20), batch_id=1),
            broker_state(3, NOON, stopped=True, batch_id=2),
            broker_state(5, NOON, batch_id=1, problem="Kafka 9.9.9 is not known"),
        )

        rows = ask(tmp_path, "SELECT broker_id, watched_now, silent_seconds FROM broker_coverage", NOON + seconds(30))

        assert [(row["broker_id"], row["watched_now"], row["silent_seconds"]) for row in rows] == [
            (2, False, 630),
            (3, False, 30),
            (5, False, 30),
            (1, True, 30),
        ]

    def test_a_broker_that_no_plugin_ever_reported_for_is_named(self, tmp_path: Path) -> None:
        append(tmp_path, "broker_status", broker_state(1, NOON), broker_state(4, None, seen_at=NOON))

        (unseen, _) = ask(tmp_path, "SELECT * FROM broker_coverage")

        assert (unseen["broker_id"], unseen["watched_now"], unseen["reported_at"]) == (4, False, None)


def test_principal_metrics_has_every_column_of_its_table(tmp_path: Path) -> None:
    append(tmp_path, "producer_id_metrics", metrics("User:a", NOON))
    (row,) = ask(tmp_path, "TABLE principal_metrics")
    assert list(row) == TABLES["producer_id_metrics"].schema.names
