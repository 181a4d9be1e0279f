"""Output formats: every table as JSON, every flat table as CSV, progress bars on terminals only."""

import csv
import inspect
import io
import json
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest
import typer
from rich.console import Console

from jobs.cli import _COMMANDS
from jobs.output import progress
from tables.store.path_tables import create_missing
from tests.kits.command_kit import PidQuota
from tests.kits.kip_kit import init, now
from tests.unit.jobs.table_rows import append, decision, metrics

SILENT = {"stream", "console", "demo-clients"}
"""They print no table."""
FLAT = (
    (
        "sql",
        "SELECT principal, ids, tokens FROM producer_id_metrics, (SELECT client_ids AS ids FROM throttle_decisions)",
    ),
    ("sql", "--view", "principal_metrics"),
    ("inits",),
    ("inits", "--last", "5"),
    ("top", "--once"),
    ("quotas", "--describe"),
    ("tables", "create"),
    ("tables", "describe"),
    ("maintain",),
)


def commands() -> Iterator[tuple[str, Callable[..., object]]]:
    """Yield the name of each command, and its function."""
    for name, (module, attribute, _) in _COMMANDS.items():
        found = getattr(import_module(module), attribute)
        if not isinstance(found, typer.Typer):
            yield name, found
            continue
        group = found.registered_callback
        if group is not None and group.callback is not None:
            yield name, group.callback
        for each in found.registered_commands:
            assert each.callback is not None
            yield f"{name} {each.name or each.callback.__name__}", each.callback


@pytest.fixture
def filled(pid_quota: PidQuota, tmp_path: Path) -> Path:
    append(tmp_path, "producer_id_metrics", metrics('User:a,"b"', now()))
    append(tmp_path, "throttle_decisions", decision('User:a,"b"', now()))
    append(tmp_path, "producer_inits", init(now(), 1))
    assert (
        pid_quota("quotas", "--tables", tmp_path, "--alter", "--add-config", "producer_ids_rate=5", "--entity-default")[
            0
        ]
        == 0
    )
    return tmp_path


@pytest.mark.parametrize(("name", "function"), [pytest.param(*each, id=each[0]) for each in commands()])
def test_what_prints_rows_prints_json(name: str, function: Callable[..., object]) -> None:
    assert name in SILENT or "as_json" in inspect.signature(function).parameters


@pytest.mark.parametrize("command", FLAT, ids=" ".join)
def test_csv_holds_the_rows_of_the_json(pid_quota: PidQuota, filled: Path, command: tuple[str, ...]) -> None:
    def asked(form: str) -> str:
        code, out, err = pid_quota(*command, "--tables", filled, form)
        assert (code, err) == (0, "")
        return out

    rows = list(csv.reader(io.StringIO(asked("--csv"))))
    records = json.loads(asked("--json"))
    assert rows[0] == list(records[0])
    assert len(rows) == len(records) + 1


def test_csv_keeps_quotes_commas_and_nothing(pid_quota: PidQuota, filled: Path) -> None:
    select = "SELECT principal, broker_id, client_ids FROM throttle_decisions"
    out = pid_quota("sql", "--tables", filled, "--csv", select)[1]
    assert list(csv.reader(io.StringIO(out))) == [
        ["principal", "broker_id", "client_ids"],
        ['User:a,"b"', "", '{"rdkafka": 1}'],
    ]


def test_two_forms_at_once_are_refused(pid_quota: PidQuota, filled: Path) -> None:
    code, _, err = pid_quota("sql", "--tables", filled, "--csv", "--json", "SELECT 1")
    assert (code, "give one of them" in err) == (2, True)


def test_quotas_as_csv_can_be_imported(pid_quota: PidQuota, filled: Path, tmp_path: Path) -> None:
    out = pid_quota("quotas", "--tables", filled, "--describe", "--csv")[1]
    file = tmp_path / "quotas.csv"
    file.write_text(out, encoding="utf-8")
    create_missing(str(tmp_path / "other"))
    code, printed, err = pid_quota("quotas", "--tables", tmp_path / "other", "--import", file, "--json")
    assert (code, len(json.loads(printed)["changes"]), err) == (0, 1, "")


class TestBar:
    def shown(self, terminal: bool) -> str:
        text = io.StringIO()
        console = Console(file=text, force_terminal=terminal, width=100)
        progress.print_status("carrying out \x1b decisions", console)
        with progress.progress_bar("keeping up the tables", console) as report:
            report(3, 13)
        return text.getvalue()

    def test_on_a_terminal_progress_shows_the_step_and_its_share(self) -> None:
        shown = self.shown(True)
        assert "carrying out \\x1b decisions" in shown
        assert "keeping up the tables" in shown
        assert "3/13" in shown

    def test_without_a_terminal_no_progress_is_printed(self) -> None:
        assert self.shown(False) == ""
