import asyncio
import io
import json
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console, RenderableType
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, Static

from jobs.top.app import DetailScreen, PrincipalList, TopApp
from jobs.top.screen import detail_view, rows_table
from tables.query.freshness import read_freshness
from tables.query.top_rows import SORTS, TopRow, arranged, read_detail, read_rows
from tests.kits.command_kit import PidQuota, one_error, printed
from tests.kits.terminal_kit import Terminal
from tests.unit.jobs.table_rows import NOON, append, broker_state, confirmed, decision, hold_fact, metrics, seconds


def write(tables: Path, now: datetime = NOON) -> str:
    """Mallory over her quota and throttled, etl near its own, alice well, carol without one."""
    minute = timedelta(minutes=1)
    mallory = [
        metrics(
            "User:mallory",
            now - at * minute,
            new_pids_window=500 - 10 * at,
            admitted_pids=2,
            refused_pids=20,
            tokens=-1.0,
        )
        for at in range(10)
    ]
    others = [
        metrics("User:etl", now, new_pids_window=85, tokens=15.0, active_pids=85),
        metrics("User:alice", now - 2 * minute, new_pids_window=1, tokens=50.0, active_pids=7),
        metrics("User:carol", now, new_pids_window=12, tokens=None, quota=None, phase="learning"),
        metrics("User:past", now - 90 * minute, new_pids_window=99),
    ]
    append(tables, "producer_id_metrics", *mallory, *others)
    append(
        tables,
        "throttle_decisions",
        decision(
            "User:mallory",
            now - seconds(10),
            throttled_until=now + seconds(600),
            refused_pids=20,
            client_ids=[("mallory-app", 19), ("other", 1)],
            addresses=[("10.0.0.8", 7), ("10.0.0.7", 13)],
        ),
    )
    append(tables, "broker_status", broker_state(1, now), broker_state(2, now))
    hold = {"until": now + seconds(600), "reason": "20 PIDs refused"}
    append(
        tables,
        "holds",
        hold_fact("written", now - seconds(9), "User:mallory", **hold),
        confirmed(1, now - seconds(9), "User:mallory", held_requests=40, let_in=2, until=hold["until"]),
    )
    return str(tables)


@pytest.fixture
def tables(tmp_path: Path) -> str:
    return write(tmp_path / "tables")


def names(rows: Iterable[TopRow]) -> list[str]:
    return [row.principal.removeprefix("User:") for row in rows]


def in_80_columns(renderable: RenderableType) -> str:
    console = Console(record=True, width=80, file=io.StringIO(), force_terminal=True)
    console.print(renderable)
    return console.export_text()


def test_a_principal_is_shown_as_of_now(tables: str) -> None:
    rows = {row.principal: row for row in read_rows(tables, NOON)}

    assert rows["User:mallory"].throttled_until == NOON + seconds(600)
    assert (rows["User:mallory"].new_pids, rows["User:mallory"].refused_pids) == (500, 200)
    # Two minutes of silence, a refill of 100 an hour.
    assert rows["User:alice"].tokens == pytest.approx(53.33, abs=0.01)
    assert "User:past" not in rows


@pytest.mark.parametrize(("burst", "tokens"), [(600.0, 550.0), (None, 100.0)])
def test_tokens_come_back_up_to_the_burst_or_else_the_quota(tmp_path: Path, burst: float | None, tokens: float) -> None:
    write(tmp_path)
    append(tmp_path, "producer_id_metrics", metrics("User:pods", NOON - seconds(1800), tokens=500.0, burst=burst))

    (pods,) = (row for row in read_rows(str(tmp_path), NOON) if row.principal == "User:pods")

    assert pods.burst == burst
    assert pods.tokens == pytest.approx(tokens)


def test_a_throttle_that_is_longer_than_the_window_is_shown_without_metrics(tables: str) -> None:
    append(tables, "throttle_decisions", decision("User:slow", NOON - seconds(9000), throttled_until=NOON + seconds(1)))

    (row,) = [row for row in read_rows(tables, NOON) if row.principal == "User:slow"]

    assert row.throttled_until == NOON + seconds(1)


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("used", ["mallory", "etl", "alice", "carol"]),
        ("new", ["mallory", "etl", "carol", "alice"]),
        ("refused", ["mallory", "alice", "carol", "etl"]),
        ("active", ["etl", "alice", "carol", "mallory"]),
        ("tokens", ["mallory", "etl", "alice", "carol"]),
        ("name", ["alice", "carol", "etl", "mallory"]),
    ],
)
def test_each_order_has_its_first(tables: str, sort: str, expected: list[str]) -> None:
    assert names(arranged(read_rows(tables, NOON), sort)) == expected


def test_a_filter_finds_a_part_of_a_name_in_any_case(tables: str) -> None:
    assert names(arranged(read_rows(tables, NOON), "used", "AL")) == ["mallory", "alice"]


def test_the_table_fits_80_columns_whatever_is_in_it(tables: str) -> None:
    append(
        tables,
        "producer_id_metrics",
        metrics(
            "User:" + "long" * 50,
            NOON,
            new_pids_window=123_456_789,
            quota=99_999.5,
            tokens=-123_456.7,
            active_pids=10**12,
            refused_pids=10**9,
        ),
    )

    text = in_80_columns(rows_table(arranged(read_rows(tables, NOON), "used")))

    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    (mallory,) = [line for line in lines if "User:mallory" in line]
    assert mallory.split()[1:] == ["500/100", "███████▶", "-1", "12:10:00", "200", "0"]
    assert "…" not in text
    assert "long" * 50 in text.replace("\n", "")


def test_a_principal_s_page_shows_its_timeline_its_clients_and_its_hold(tables: str) -> None:
    text = in_80_columns(detail_view(read_detail(tables, "User:mallory", NOON)))

    assert "▇▇████ top 500, quota 100" in text
    assert "THROTTLE until 12:10:00, 20 PIDs refused" in text
    assert "client ids: mallory-app (19), others (1)" in text
    assert "addresses: 10.0.0.7 (13), 10.0.0.8 (7)" in text
    assert "on hold since 11:59:51 until 12:10:00, confirmed by 1 of 2 brokers" in text
    assert "  40 requests for new producer ids held, 2 let in" in text


def test_a_principal_s_page_says_why_it_is_not_held(tables: str) -> None:
    append(tables, "holds", hold_fact("left_out", NOON, "User:etl", reason="--never"))

    assert "not held: --never" in in_80_columns(detail_view(read_detail(tables, "User:etl", NOON)))
    assert "no hold" in in_80_columns(detail_view(read_detail(tables, "User:alice", NOON)))


def test_a_name_can_not_steer_the_terminal(tables: str) -> None:
    evil = "User:\x1b[2J[bold]o'hara{x}"
    append(tables, "producer_id_metrics", metrics(evil, NOON))
    append(
        tables,
        "throttle_decisions",
        decision(evil, NOON, client_ids=[("\x1b]0;pwned\x07", 1)], addresses=[("\x1b]0;x\x07", 1)]),
    )

    rows = arranged(read_rows(tables, NOON), "used")
    text = in_80_columns(rows_table(rows)) + in_80_columns(detail_view(read_detail(tables, evil, NOON)))

    assert "\\x1b[2J[bold]o'hara{x}" in text
    assert "\\x1b]0;pwned\\x07 (1)" in text
    assert "\\x1b]0;x\\x07 (1)" in text
    assert "\x1b" not in text


def test_once_prints_the_principals_and_json_their_values(tmp_path: Path, pid_quota: PidQuota) -> None:
    tables = write(tmp_path / "tables", datetime.now(timezone.utc))

    out = printed(pid_quota("top", "--tables", tables, "--once", "--filter", "a"))
    assert "4 principals, 1 throttled" in out.splitlines()[0]
    assert [line.split()[0] for line in out.splitlines()[2:]] == ["User:mallory", "User:alice", "User:carol"]

    out = printed(pid_quota("top", "--tables", tables, "--json", "--sort", "name", "--limit", "2"))
    assert [row["principal"] for row in json.loads(out)] == ["User:alice", "User:carol"]

    (found,) = json.loads(printed(pid_quota("top", "--tables", tables, "--json", "--principal", "mallory")))[
        "decisions"
    ]
    assert found["client_ids"] == {"mallory-app": 19, "other": 1}
    assert found["addresses"] == {"10.0.0.7": 13, "10.0.0.8": 7}


def test_tables_that_are_not_there_are_one_line(tmp_path: Path, pid_quota: PidQuota) -> None:
    one_error(pid_quota("top", "--tables", tmp_path / "nothing", "--once"))


def app(tables: str, **options: Any) -> TopApp:
    return TopApp(tables, clock=lambda: NOON, seconds=0.2, **options)


def drive(running: TopApp, steps: Callable[[Pilot[None]], Awaitable[None]]) -> None:
    """Run the screens without a terminal, 80 columns wide, and do some steps."""

    async def run() -> None:
        async with running.run_test(size=(80, 24)) as pilot:
            await steps(pilot)

    asyncio.run(run())


async def until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up_at
        await pilot.pause(0.05)


def shown(running: TopApp) -> list[str]:
    table = running.screen_stack[0].query_one(DataTable)
    return [str(table.get_row_at(at)[0]).strip().removeprefix("User:") for at in range(table.row_count)]


def test_keys_sort_filter_and_open(tables: str) -> None:
    running = app(tables)

    async def steps(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: shown(running) == ["mallory", "etl", "alice", "carol"])
        await pilot.press("s")
        assert (running.sort, shown(running)) == ("new", ["mallory", "etl", "carol", "alice"])
        await pilot.press("slash", *"CAR", "enter")
        assert shown(running) == ["carol"]
        assert not running.query_one(Input).has_class("shown")
        await pilot.press("escape")
        assert len(shown(running)) == 4
        await pilot.press("slash", *"[/", "enter")
        assert shown(running) == []
        await pilot.press("escape")
        await pilot.press("slash", *"mall", "enter", "enter")
        await until(pilot, lambda: isinstance(running.screen, DetailScreen))
        detail = running.screen.query_one("#detail", Static)
        await until(pilot, lambda: "mallory-app" in in_80_columns(cast("RenderableType", detail.content)))
        await pilot.press("escape")
        assert not isinstance(running.screen, DetailScreen)
        await pilot.press("q")

    drive(running, steps)


def chosen(running: TopApp) -> str | None:
    return running.chosen.principal if running.chosen else None


def test_new_rows_appear_by_themselves_and_the_cursor_stays_with_its_principal(tables: str) -> None:
    running = app(tables, sort="new")

    async def steps(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(shown(running)) == 4)
        await pilot.press("down")
        assert chosen(running) == "User:etl"
        append(tables, "producer_id_metrics", metrics("User:newcomer", NOON, new_pids_window=9_000))
        await until(pilot, lambda: shown(running)[0] == "newcomer")
        assert chosen(running) == "User:etl"

    drive(running, steps)


def test_tables_that_can_not_be_read_for_a_while_are_waited_for(tables: str, tmp_path: Path) -> None:
    running = app(tables)

    async def steps(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(shown(running)) == 4)
        os.rename(tables, tmp_path / "away")
        status = running.query_one("#status", Static)
        await until(pilot, lambda: "producer_id_metrics" in str(status.content))
        os.rename(tmp_path / "away", tables)
        await until(pilot, lambda: "principals" in str(status.content))

    drive(running, steps)


def terminal(tables: Path) -> Terminal:
    return Terminal(80, "top", "--tables", write(tables, datetime.now(timezone.utc)))


def test_it_answers_keys_on_a_terminal_and_exits_with_0(tmp_path: Path) -> None:
    with terminal(tmp_path / "tables") as top:
        top.wait_for("User:mallory")
        top.press("\r")
        top.wait_for("mallory-app")
        top.press("q")
        assert top.end() == 0


@pytest.mark.parametrize("keys", ["\x03", "/\x03", "\r\x03"], ids=["the list", "the filter", "a principal"])
def test_ctrl_c_exits_from_every_screen(tmp_path: Path, keys: str) -> None:
    with terminal(tmp_path / "tables") as top:
        top.wait_for("User:mallory")
        top.press(keys)
        assert top.end() == 0


def test_a_name_longer_than_its_column_takes_more_lines(tables: str) -> None:
    append(tables, "producer_id_metrics", metrics("User:" + "long" * 10, NOON))
    running = app(tables)

    async def steps(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(shown(running)) == 5)
        table = running.query_one(PrincipalList)
        await until(pilot, lambda: sorted(row.height for row in table.ordered_rows)[-1] > 1)
        assert sum(row.height == 1 for row in table.ordered_rows) == 4

    drive(running, steps)


def test_every_order_has_a_name_for_the_command_line() -> None:
    from typing import get_args

    from jobs.top.command import Sort

    assert get_args(Sort) == tuple(SORTS)


class TestStale:
    """The stream of `write` ends at noon."""

    LATER = NOON + timedelta(minutes=36)

    def test_a_silent_stream_is_warned_of_with_the_command_to_look(self, tables: str) -> None:
        running = TopApp(tables, clock=lambda: self.LATER, seconds=0.2)

        async def steps(pilot: Pilot[None]) -> None:
            await until(pilot, lambda: len(shown(running)) > 0)
            banner, status = running.query_one("#stale", Static), running.query_one("#status", Static)
            assert banner.display
            assert str(banner.content).startswith("no rows since 12:00, 36 min: is the stream running?\nlook: pgrep")
            assert "unknown who is throttled now" in str(status.content)
            await pilot.press("enter")
            detail = running.screen.query_one("#detail", Static)
            await until(pilot, lambda: "no rows since 12:00" in in_80_columns(cast("RenderableType", detail.content)))

        drive(running, steps)

    def test_a_live_one_is_not(self, tables: str) -> None:
        running = app(tables)

        async def steps(pilot: Pilot[None]) -> None:
            await until(pilot, lambda: len(shown(running)) > 0)
            assert not running.query_one("#stale", Static).display

        drive(running, steps)

    def test_an_idle_stream_that_copies_reports_is_not_stale(self, tables: str) -> None:
        append(tables, "broker_status", broker_state(1, self.LATER - seconds(50)))
        assert not read_freshness(tables, self.LATER).is_stale

    def test_three_minutes_without_a_row_are_the_limit(self, tables: str) -> None:
        found = [read_freshness(tables, NOON + seconds(silent_s)).is_stale for silent_s in (180, 181)]
        assert found == [False, True]

    def test_nothing_at_all_is_stale(self, tmp_path: Path) -> None:
        found = read_freshness(str(tmp_path), NOON)
        assert (found.is_stale, found.silent_seconds) == (True, None)

    def test_a_silence_of_days_names_the_day(self, tables: str) -> None:
        found = read_freshness(tables, NOON + timedelta(days=3))
        assert found.warning() == "no rows since 2026-01-15 12:00, 3 d: is the stream running?"

    def test_once_warns_apart_from_the_values(self, tables: str, pid_quota: PidQuota) -> None:
        code, out, err = pid_quota("top", "--tables", tables, "--json")
        assert (code, json.loads(out)) == (0, [])
        assert err.startswith("warning: no rows since 2026-01-15 12:00, ")
