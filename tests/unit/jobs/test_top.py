"""`pid-quota top`: the rows, and the screen that shows them."""

import io
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from jobs.top.command import screen
from tables.query.freshness import read_freshness
from tables.query.top_rows import TopRow, arranged, read_rows
from tests.kits.command_kit import PidQuota, printed
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


def test_a_screen_has_the_first_principals_and_tells_how_many_there_are(tables: str) -> None:
    rows = read_rows(tables, NOON)
    shown = screen(rows, read_freshness(tables, NOON), {"User:mallory": "restart loop"}, "used", height=7)

    totals, _, first, second, rest = in_80_columns(shown).splitlines()

    assert totals.split("UTC")[1].startswith("  4 principals, 1 throttled, 1 held, 598 new PIDs")
    assert (first.split()[0], first.split()[-1], second.split()[0]) == ("User:mallory", "restarts", "User:etl")
    assert rest == "and 2 more: --once prints all"


def test_a_screen_of_stale_tables_says_so_and_nothing_of_now(tables: str) -> None:
    late = NOON + timedelta(hours=1)
    text = in_80_columns(screen(read_rows(tables, late), read_freshness(tables, late), {}, "used", height=20))

    assert text.startswith(read_freshness(tables, late).warning())
    assert "it is unknown who is throttled now" in text


def test_once_prints_the_principals(tmp_path: Path, pid_quota: PidQuota) -> None:
    tables = write(tmp_path / "tables", datetime.now(timezone.utc))

    out = printed(pid_quota("top", "--tables", tables, "--sort", "name"))

    assert "4 principals, 1 throttled" in out.splitlines()[0]
    assert [line.split()[0].removeprefix("User:") for line in out.splitlines()[2:]] == [
        "alice",
        "carol",
        "etl",
        "mallory",
    ]


def test_a_terminal_gets_a_live_screen_until_ctrl_c(tmp_path: Path) -> None:
    tables = write(tmp_path / "tables", datetime.now(timezone.utc))
    with Terminal(80, "top", "--tables", tables) as terminal:
        terminal.wait_for("User:mallory")
        terminal.interrupt()
        assert terminal.end() == 0
