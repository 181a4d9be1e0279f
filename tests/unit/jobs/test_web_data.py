"""What the console's pages are made of: the right rows, of the right time, in the types of JSON."""

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from jobs.web.occupancy_charts import failover_bounds
from jobs.web.pages import ConsoleData
from jobs.web.timelines import thinned
from tables.store import duck, path_tables
from tables.store.path_tables import create_missing
from tests.kits.kip_kit import deploys, init
from tests.unit.jobs.table_rows import (
    NOON,
    Row,
    append,
    confirmed,
    decision,
    hold_fact,
    metrics,
    seconds,
)

HOUR = timedelta(hours=1)


@pytest.fixture
def data(tmp_path: Path) -> ConsoleData:
    create_missing(str(tmp_path))
    return ConsoleData(str(tmp_path))


def names(rows: Iterable[dict[str, Any]]) -> list[str]:
    return [row["principal"] for row in rows]


def test_pages_of_tables_that_are_not_there_say_how_to_make_them(tmp_path: Path) -> None:
    data = ConsoleData(str(tmp_path / "nowhere"))
    overview, occupancy, activity = data.overview(NOON), data.occupancy(NOON), data.activity(NOON, 6)
    assert "pid-quota tables create" in overview["missing"]["producer_id_metrics"]
    assert "producer_occupancy" in occupancy["missing"]
    assert overview["per_minute"] is None
    assert (overview["throttled"], activity["intervals"]["at_ms"], occupancy["rows"]) == ([], [], [])


def test_pages_of_empty_tables_are_json(data: ConsoleData) -> None:
    pages = [data.overview(NOON), data.activity(NOON, 168), data.offenders(NOON), data.headroom(NOON)]
    pages.append(data.occupancy(NOON))
    for page in [*pages, data.principal(NOON, "User:nobody")]:
        assert json.loads(json.dumps(page, allow_nan=False)) == page
        assert page["missing"] == {}


class TestOverview:
    def test_new_producer_ids_are_counted_per_minute_of_the_newest_interval_that_is_over(
        self, data: ConsoleData
    ) -> None:
        for offset in (-120, -60, 0, 60):
            end = NOON + seconds(offset)
            append(data.tables, "producer_id_metrics", metrics("User:a", end, admitted_pids=5, refused_pids=1))
            append(data.tables, "producer_id_metrics", metrics("User:b", end, admitted_pids=2 if offset <= 0 else 0))
        page = data.overview(NOON + seconds(20))
        assert page["per_minute"] == 8
        assert page["interval_seconds"] == 60
        assert data.activity(NOON + seconds(20), 6)["intervals"]["admitted_pids"] == [7, 7, 7, 5]

    def test_of_short_intervals_the_last_minute_is_counted_and_no_burst_extrapolated(self, data: ConsoleData) -> None:
        rows = [metrics("User:a", NOON - seconds(10 * n), admitted_pids=1, refused_pids=0) for n in range(1, 9)]
        append(data.tables, "producer_id_metrics", metrics("User:a", NOON, admitted_pids=55, refused_pids=0), *rows)
        assert data.overview(NOON)["per_minute"] == 60

    def test_of_a_long_interval_the_mean_minute_is_counted(self, data: ConsoleData) -> None:
        rows = [metrics("User:a", NOON - seconds(300 * n), admitted_pids=50 - n, refused_pids=0) for n in range(3)]
        append(data.tables, "producer_id_metrics", *rows)
        assert data.overview(NOON)["per_minute"] == 10

    def test_what_is_silent_for_a_window_is_not_in_the_windows_sum(self, data: ConsoleData) -> None:
        append(data.tables, "producer_id_metrics", metrics("User:old", NOON - 2 * HOUR, new_pids_window=70))
        append(data.tables, "producer_id_metrics", metrics("User:new", NOON - seconds(30), new_pids_window=90))
        totals = data.overview(NOON)["totals"]
        assert (totals["new_pids_window"], totals["near_quota"], totals["ledgers"]) == (90, 1, 2)

    def test_a_throttle_of_days_ago_that_still_holds_is_throttled_now(self, data: ConsoleData) -> None:
        long = decision("User:slow", NOON - timedelta(days=3), throttled_until=NOON + HOUR, client_ids=[("x", 2)])
        long |= {"addresses": [("10.0.0.7", 2)]}
        over = decision("User:over", NOON - HOUR)
        # In files of their own, of which a page skips those that are too old.
        append(data.tables, "throttle_decisions", long)
        append(data.tables, "throttle_decisions", over)
        (row,) = data.overview(NOON)["throttled"]
        assert (row["principal"], row["seconds_left"], row["client_ids"]) == ("User:slow", 3600, {"x": 2})
        assert row["addresses"] == {"10.0.0.7": 2}

    def test_a_throttle_says_what_its_clients_look_like(self, data: ConsoleData) -> None:
        throttles = [decision(who, NOON - seconds(9), throttled_until=NOON + HOUR) for who in ("User:pods", "User:x")]
        append(data.tables, "throttle_decisions", *throttles)
        append(data.tables, "producer_inits", *deploys("User:pods", NOON))
        assert {row["principal"]: row["looks_like"] for row in data.overview(NOON)["throttled"]} == {
            "User:pods": "likely deploy, else leak, scale-out, restart loop or producer per message/batch",
            "User:x": None,
        }

    def test_a_stream_that_is_silent_for_days_says_since_when(self, data: ConsoleData) -> None:
        append(data.tables, "producer_id_metrics", metrics("User:a", NOON - timedelta(days=3)))
        health = data.overview(NOON)["health"]
        assert health["silent_seconds"] == 3 * 86_400
        assert health["newest_row_at"] == "2026-01-12T12:00:00+00:00"


class TestActivity:
    def test_it_is_of_the_hours_asked_for(self, data: ConsoleData) -> None:
        rows = [metrics("User:a", NOON - timedelta(hours=n), admitted_pids=n) for n in (1, 5, 30)]
        append(data.tables, "producer_id_metrics", *rows)
        found = {hours: data.activity(NOON + seconds(1), hours)["intervals"]["admitted_pids"] for hours in (1, 6, 168)}
        assert found == {1: [], 6: [5, 1], 168: [30, 5, 1]}

    def test_a_step_holds_the_intervals_that_end_in_it_or_with_it(self) -> None:
        rows = [{"at_ms": at_ms, "admitted_pids": 1, "refused_pids": 0} for at_ms in (999, 1000, 1001)]
        assert {row["at_ms"]: row["admitted_pids"] for row in thinned(rows, 1000)} == {1000: 2, 2000: 1}

    def test_of_a_young_cluster_the_steps_are_its_intervals(self, data: ConsoleData) -> None:
        rows = [metrics("User:a", NOON - seconds(10 * n), admitted_pids=1) for n in range(60)]
        append(data.tables, "producer_id_metrics", *rows)
        page = data.activity(NOON, 168)
        assert (page["step_seconds"], len(page["intervals"]["at_ms"])) == (10, 60)


def test_while_nobody_is_refused_the_offenders_are_those_with_most_new_ids_and_then_most_known(
    data: ConsoleData,
) -> None:
    rows = [
        metrics("User:a", NOON, admitted_pids=1),
        metrics("User:b", NOON, admitted_pids=7),
        # In a learning time no id is new.
        metrics("User:c", NOON, active_pids=3),
        metrics("User:d", NOON, active_pids=90),
    ]
    append(data.tables, "producer_id_metrics", *rows)
    assert names(data.offenders(NOON)["offenders"]) == ["User:b", "User:a", "User:d", "User:c"]


def test_a_page_that_leaves_rows_out_says_so(data: ConsoleData) -> None:
    append(data.tables, "producer_id_metrics", *(metrics(f"User:{number}", NOON) for number in range(2000)))
    assert not data.headroom(NOON)["complete"]
    append(data.tables, "producer_occupancy", *(occupancy_row(1, f"t{number}", 1, 1) for number in range(201)))
    page = data.occupancy(NOON)
    assert (len(page["rows"]), page["more_rows"]) == (200, 1)
    append(data.tables, "holds", *(hold_fact("written", NOON - seconds(number)) for number in range(1001)))
    page = data.holds(NOON, 24, "")
    assert (len(page["holds"]), len(page["facts"]), page["complete"]) == (1, 1000, False)


class TestPrincipal:
    @pytest.mark.parametrize("name", ["User:o'neill", "User:<script>alert(1)</script>", "User:a b; --", 'User:"ł\\'])
    def test_any_name_finds_its_own_rows_and_no_others(self, data: ConsoleData, name: str) -> None:
        append(data.tables, "producer_id_metrics", metrics(name, NOON), metrics("User:other", NOON))
        append(data.tables, "throttle_decisions", decision(name, NOON), decision("User:other", NOON))
        append(data.tables, "holds", hold_fact("written", NOON, name), hold_fact("written", NOON, "User:other"))
        page = data.principal(NOON, name)
        assert page["principal"] == page["now_row"]["principal"] == name
        assert len(page["counts"]["at_ms"]) == len(page["decisions"]) == 1
        assert page["hold"]["principal"] == name
        assert page["decisions"][0]["addresses"] == {"10.0.0.7": 1}

    def test_steps_sum_what_was_new_and_keep_the_peak(self, data: ConsoleData) -> None:
        rows = [metrics("User:a", NOON - seconds(30 * n), new_pids_window=n, admitted_pids=1) for n in range(120)]
        append(data.tables, "producer_id_metrics", *rows)
        page = data.principal(NOON, "User:a", hours=24)
        # The rows cover an hour, so a step is 10 seconds.
        assert page["counts"]["admitted_pids"] == [1] * 120
        page = data.principal(NOON + 23 * HOUR, "User:a", hours=24)
        line = page["timeline"]
        # 24 h in 360 steps are 4 minutes each: 8 rows. The last two points are of the silence after them.
        assert page["counts"]["admitted_pids"] == [8] * 15
        assert line["new_pids_window"] == [119 - 8 * n for n in range(15)] + [0, 0]
        assert line["quota"] == [100.0] * 17

    def test_the_newest_step_ends_now(self, data: ConsoleData) -> None:
        rows = [metrics("User:a", NOON - n * HOUR, new_pids_window=50 + n) for n in (0, 23)]
        append(data.tables, "producer_id_metrics", *rows)
        now = NOON + seconds(20)
        line = data.principal(now, "User:a", hours=24)["timeline"]
        assert (line["at_ms"][-1], line["new_pids_window"][-1]) == (now.timestamp() * 1000, 50)

    def test_a_line_begins_at_zero_where_its_principal_began(self, data: ConsoleData) -> None:
        rows = [metrics("User:a", NOON - seconds(10 * n), new_pids_window=9 - n, admitted_pids=1) for n in range(3)]
        rows.append(metrics("User:a", NOON - seconds(30), new_pids_window=6, admitted_pids=2, refused_pids=4))
        append(data.tables, "producer_id_metrics", *rows)
        line = data.principal(NOON, "User:a", hours=0.1)["timeline"]
        assert line["new_pids_window"] == [0, 6, 7, 8, 9]
        assert line["at_ms"][1] - line["at_ms"][0] == 10_000

    def test_a_line_that_was_there_before_does_not(self, data: ConsoleData) -> None:
        append(data.tables, "producer_id_metrics", metrics("User:a", NOON, new_pids_window=50, admitted_pids=1))
        assert data.principal(NOON, "User:a", hours=1)["timeline"]["new_pids_window"] == [50]

    def test_a_long_silence_is_drawn_as_an_empty_window(self, data: ConsoleData) -> None:
        rows = [metrics("User:a", NOON - n * HOUR, new_pids_window=40, active_pids=9) for n in (5, 10)]
        append(data.tables, "producer_id_metrics", *rows)
        line = data.principal(NOON, "User:a", hours=24)["timeline"]
        hours_ago = [(NOON.timestamp() * 1000 - at_ms) / 3_600_000 for at_ms in line["at_ms"]]
        assert hours_ago == pytest.approx([10, 9, 5, 5, 4, 0], abs=0.001)
        assert line["at_ms"] == sorted(set(line["at_ms"]))
        assert line["new_pids_window"] == [40, 0, 0, 40, 0, 0]
        assert line["active_pids"] == [9, None, None, 9, None, None]

    @pytest.mark.parametrize(("burst", "full"), [(600.0, 600), (None, 100)])
    def test_after_a_long_silence_the_bucket_is_full(self, data: ConsoleData, burst: float | None, full: float) -> None:
        row = metrics("User:a", NOON - 5 * HOUR, new_pids_window=40, quota=100.0, burst=burst, tokens=-3.0)
        append(data.tables, "producer_id_metrics", row)
        assert data.principal(NOON, "User:a", hours=24)["timeline"]["tokens"] == [-3, full, full]

    def test_renewals_are_one_time_under_throttle(self, data: ConsoleData) -> None:
        times = [NOON - seconds(n) for n in (300, 270, 100)]
        append(data.tables, "throttle_decisions", *(decision("User:a", at) for at in times))
        spans = data.principal(NOON, "User:a")["throttles"]
        noon_ms = int(NOON.timestamp() * 1000)
        assert [[start - noon_ms, end - noon_ms] for start, end in spans] == [[-300_000, -210_000], [-100_000, -40_000]]

    def test_a_release_ends_the_time_under_throttle_early(self, data: ConsoleData) -> None:
        throttle = decision("User:a", NOON - seconds(100), throttled_until=NOON)
        release = decision("User:a", NOON - seconds(60), action="RELEASE", throttled_until=NOON - seconds(60))
        append(data.tables, "throttle_decisions", throttle, release)
        ((start_ms, end_ms),) = data.principal(NOON, "User:a")["throttles"]
        assert end_ms - start_ms == 40_000

    def test_a_throttle_of_the_moment_of_a_release_is_the_later_one(self, data: ConsoleData) -> None:
        release = decision("User:a", NOON - seconds(60), action="RELEASE", throttled_until=NOON - seconds(60))
        append(data.tables, "throttle_decisions", release, decision("User:a", NOON - seconds(60)))
        ((start_ms, end_ms),) = data.principal(NOON, "User:a")["throttles"]
        assert end_ms - start_ms == 60_000

    def test_a_throttle_from_before_the_time_that_lasts_into_it_is_shown(self, data: ConsoleData) -> None:
        append(data.tables, "throttle_decisions", decision("User:a", NOON - 2 * HOUR, throttled_until=NOON + HOUR))
        page = data.principal(NOON, "User:a", hours=1)
        assert (len(page["decisions"]), len(page["throttles"])) == (1, 1)


def occupancy_row(
    broker_id: int, topic: str, led: int, held: int, swept_at: datetime = NOON, principal: str = "User:a"
) -> Row:
    return {
        "swept_at": swept_at,
        "broker_id": broker_id,
        "topic": topic,
        "principal": principal,
        "led_pids": led,
        "held_pids": held,
        "open_transactions": 0,
        "idle_hours": [held],
        "estimated_bytes": held * 10,
        "expiration_ms": 86_400_000,
        "missing_replicas": 0,
    }


class TestOccupancy:
    def test_brokers_are_summed_up_and_sweeps_are_columns(self, data: ConsoleData) -> None:
        earlier = NOON - HOUR
        rows = [occupancy_row(1, "t", 5, 10), occupancy_row(1, "u", 1, 2), occupancy_row(2, "t", 5, 10)]
        append(data.tables, "producer_occupancy", *rows, occupancy_row(2, "t", 3, 3, swept_at=earlier))
        page = data.occupancy(NOON)
        assert [(row["broker_id"], row["held_pids"], row["led_pids"]) for row in page["brokers"]] == [
            (1, 12, 6),
            (2, 10, 5),
        ]
        assert page["sweeps"]["held_pids"] == {"1": [None, 12], "2": [3, 10]}
        assert page["brokers"][0]["age_seconds"] == 0
        (holder,) = page["principals"]
        assert (holder["entries"], holder["estimated_bytes"]) == (22, 220)
        held = data.principal(NOON, holder["principal"])["held"]
        assert (held["entries"], held["estimated_bytes"]) == (22, 220)
        assert data.principal(NOON, "User:nobody")["held"] is None

    def test_a_survivor_leads_at_most_what_it_follows_of_the_dead_ones_topics(self) -> None:
        rows = [occupancy_row(1, "t", 6, 10), occupancy_row(1, "u", 4, 4)]
        rows += [occupancy_row(2, "t", 4, 10), occupancy_row(3, "u", 0, 1)]
        first, *_ = failover_bounds([row | {"age_seconds": 0.0} for row in rows])["failovers"]
        assert (first["dead"], first["led_pids"]) == (1, 10)
        assert first["survivors"] == [
            {"broker_id": 2, "led_before": 4, "led_at_most": 10},
            {"broker_id": 3, "led_before": 0, "led_at_most": 1},
        ]


def test_times_are_pushed_below_the_views(data: ConsoleData, monkeypatch: pytest.MonkeyPatch) -> None:
    append(data.tables, "producer_id_metrics", metrics("User:old", NOON - timedelta(days=9)))
    append(data.tables, "producer_id_metrics", metrics("User:new", NOON))
    select, loaded = path_tables.select_rows, {}

    def counted(tables: str, name: str, rows: Any) -> Any:
        loaded[name] = select(tables, name, rows)
        return loaded[name]

    monkeypatch.setattr(duck, "select_rows", counted)
    data.headroom(NOON)
    assert loaded["producer_id_metrics"]["principal"].to_pylist() == ["User:new"]
    data.principal(NOON, "User:old", hours=720)
    assert loaded["producer_id_metrics"]["principal"].to_pylist() == ["User:old"]


class TestHistory:
    def test_decisions_are_those_of_a_time_and_of_one_principal_if_asked(self, data: ConsoleData) -> None:
        rows = [
            decision("User:a", NOON - HOUR),
            decision("User:b", NOON - seconds(60)),
            decision("User:a", NOON - 30 * HOUR, throttled_until=NOON - HOUR),
        ]
        append(data.tables, "throttle_decisions", *rows)
        page = data.decisions(NOON, 24, "")
        assert (names(page["decisions"]), page["complete"]) == (["User:b", "User:a"], True)
        assert len(data.decisions(NOON, 168, "User:a")["decisions"]) == 2

    def test_who_is_on_hold_is_shown_once_and_all_facts_the_newest_first(self, data: ConsoleData) -> None:
        append(
            data.tables,
            "holds",
            hold_fact("written", NOON - seconds(9)),
            confirmed(1, NOON - seconds(8)),
            hold_fact("released", NOON - seconds(5), None),
        )
        page = data.holds(NOON, 24, "")
        assert [row["hold"] for row in page["holds"]] == ["released"]
        assert [row["state"] for row in page["facts"]] == ["released", "in_force", "written"]
        # A release of everybody is of each principal, too.
        assert [row["state"] for row in data.holds(NOON, 24, "User:other")["facts"]] == ["released"]
        assert [row["hold"] for row in data.holds(NOON, 24, "User:m")["holds"]] == ["released"]

    def test_a_release_in_force_counts_however_short_the_span_is(self, data: ConsoleData) -> None:
        released = hold_fact("released", NOON - 99 * HOUR, None, until=NOON + HOUR)
        append(data.tables, "holds", released, hold_fact("written", NOON - seconds(9)))
        page = data.holds(NOON, 24, "")
        assert [row["hold"] for row in page["holds"]] == ["released"]
        assert [row["state"] for row in page["facts"]] == ["written"]


def test_freshness_has_a_warning_once_nothing_comes(data: ConsoleData) -> None:
    append(data.tables, "producer_id_metrics", metrics("User:a", NOON))
    assert data.freshness(NOON + seconds(60))["warning"] == ""
    page = data.freshness(NOON + seconds(2160))
    assert (page["stale"], page["since"]) == (True, "12:00")
    assert page["warning"] == "no rows since 12:00, 36 min: is the stream running?"


def test_an_unknown_principal_gets_those_with_names_like_it(data: ConsoleData) -> None:
    append(data.tables, "producer_id_metrics", metrics("User:mallory", NOON), metrics("User:alice", NOON))
    assert data.principal(NOON, "User:malory")["similar"] == ["User:mallory"]
    assert "similar" not in data.principal(NOON, "User:mallory")


def test_a_diagnosis_comes_with_its_fix_and_its_evidence(data: ConsoleData) -> None:
    rows = [init(NOON - seconds(20 * number), principal="User:m", result_producer_id=number) for number in range(200)]
    append(data.tables, "producer_inits", *rows)
    (row,) = data.principal(NOON, "User:m")["churn"]
    assert row["evidence"].startswith("200 new producer ids in 24 h")
    assert all(fix["summary"] and fix["java"] for fix in row["fixes"])
    assert row["fixes"]


def test_a_broker_s_idle_hours_are_summed_over_its_topics() -> None:
    row = {
        "broker_id": 1, "topic": "t", "led_pids": 1, "held_pids": 3, "open_transactions": 0, "estimated_bytes": 9,
        "expiration_ms": 1, "missing_replicas": 0, "swept_at": NOON, "age_seconds": 1.0, "idle_hours": [1, 2],
    }  # fmt: skip
    found = failover_bounds([row, row | {"idle_hours": [4]}, row | {"idle_hours": None}])
    assert found["brokers"][0]["idle_hours"] == [5, 2]
