"""Text tables are complete at any width."""

import io
import re
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from jobs.output.text_tables import TextTable
from tests.kits.command_kit import PidQuota
from tests.kits.kip_kit import block_row, init, now
from tests.kits.terminal_kit import Terminal
from tests.unit.jobs.table_rows import append, decision, hold_fact, metrics

LONG = "User:CN=payments-gateway,OU=platform,O=Example Corporation"
TEXTS = st.text(st.sampled_from("ab ,漢é"), max_size=40).map(str.strip)


def rendered(table: TextTable, width: int) -> list[str]:
    text = io.StringIO()
    Console(file=text, width=width, force_terminal=True, color_system=None).print(table)
    return text.getvalue().splitlines()


def squeezed(text: str) -> str:
    return re.sub(r"\s", "", text)


@given(
    st.lists(st.tuples(TEXTS, st.integers(), st.none() | TEXTS, TEXTS, st.floats(allow_nan=False)), max_size=4),
    st.integers(10, 400),
)
def test_at_any_width_no_value_and_no_name_is_cut(rows: list[tuple[object, ...]], width: int) -> None:
    names = ("principal", "refused_pids", "quota_source", "comment", "tokens")

    lines = rendered(TextTable(names, rows), width)

    assert max(map(cell_len, lines), default=0) <= width
    assert all(line == line.rstrip() for line in lines)
    text = squeezed("".join(lines))
    assert all(squeezed(value) in text for row in rows for value in row if isinstance(value, str))
    assert not rows or all(name in text for name in names)


# Every command, on a real terminal


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    minutes = [now() - timedelta(minutes=count) for count in range(3)]
    append(folder, "producer_id_metrics", *(metrics(LONG, at, refused_pids=3, new_pids_window=9) for at in minutes))
    append(folder, "producer_id_metrics", *(metrics("User:mallory", at, rate=1 / 3) for at in minutes))
    append(folder, "throttle_decisions", decision("User:mallory", now()), decision(LONG, now()))
    append(folder, "producer_inits", *(init(at, 7 + index, principal=LONG) for index, at in enumerate(minutes)))
    append(folder, "pid_blocks", block_row(0, now()), block_row(1000, now(), broker_id=2))
    append(folder, "holds", hold_fact("written", now(), "User:mallory"))
    return folder


COMMANDS = [
    ("tables", "create"),
    ("top", "--once"),
    ("tables", "maintain", "--dry-run"),
    ("quotas", "--suggest"),
    ("sql", "SELECT * FROM throttle_decisions"),
    *(
        ("sql", "--view", view)
        for view in ("current_throttles", "holds_now", "principal_timeline", "quota_headroom", "broker_coverage")
    ),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("width", [39, 80])
def test_no_command_cuts_or_overflows(
    pid_quota: PidQuota, monkeypatch: pytest.MonkeyPatch, tables: Path, command: tuple[str, ...], width: int
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))

    code, out, _ = pid_quota(*command, "--tables", tables)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", out).splitlines()
    assert code == 0
    assert "…" not in out
    assert max(map(cell_len, lines)) <= width


def in_a_terminal(width: int, *arguments: object) -> str:
    """Run the program with a terminal of that width; return its output."""
    with Terminal(width, *arguments, NO_COLOR="1") as terminal:
        assert terminal.end() == 0
        return terminal.text


@pytest.mark.parametrize("form", ["--csv", "--json"])
def test_a_name_can_not_steer_the_terminal_in_a_form_for_programs(
    pid_quota: PidQuota, tmp_path: Path, form: str
) -> None:
    name = "User:\x1b[2J\x9b2J"
    append(tmp_path, "throttle_decisions", decision(name, now()))
    query = ("sql", "SELECT principal FROM throttle_decisions", "--tables", tmp_path, form)

    shown, piped = in_a_terminal(80, *query), pid_quota(*query)[1]

    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert "[2J\\x9b2J" in shown
    assert (name if form == "--csv" else "\\u001b[2J\x9b2J") in piped


def test_a_pipe_gets_a_line_per_row_however_long(pid_quota: PidQuota, tables: Path) -> None:
    out = pid_quota("sql", "--tables", tables, "SELECT * FROM throttle_decisions ORDER BY principal")[1]

    assert len(out.splitlines()) == 3
    assert LONG in out
