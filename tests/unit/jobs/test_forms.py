"""Output formats: every table as JSON, every flat table as CSV, progress bars on terminals only."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from jobs.output import progress
from tables.store.path_tables import create_missing
from tests.kits.command_kit import PidQuota, printed
from tests.kits.kip_kit import init, now
from tests.unit.jobs.table_rows import append, decision, metrics
from tests.unit.jobs.test_help_and_completion import EVERY

SILENT = {"run", "stream", "console", "demo-clients"}
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


@pytest.fixture
def filled(pid_quota: PidQuota, tmp_path: Path) -> Path:
    append(tmp_path, "producer_id_metrics", metrics('User:a,"b"', now()))
    append(tmp_path, "throttle_decisions", decision('User:a,"b"', now()))
    append(tmp_path, "producer_inits", init(now(), 1))
    change = ("--alter", "--add-config", "producer_ids_rate=5", "--entity-default")
    assert pid_quota("quotas", "--tables", tmp_path, *change)[0] == 0
    return tmp_path


@pytest.mark.parametrize(("words", "command"), EVERY, ids=[" ".join(words) for words, _ in EVERY])
def test_what_prints_rows_prints_json(words: tuple[str, ...], command: Any) -> None:
    is_group_alone = command.callback is None
    assert is_group_alone or words[0] in SILENT or any("--json" in parameter.opts for parameter in command.params)


@pytest.mark.parametrize("command", FLAT, ids=" ".join)
def test_csv_holds_the_rows_of_the_json(pid_quota: PidQuota, filled: Path, command: tuple[str, ...]) -> None:
    def asked(form: str) -> str:
        return printed(pid_quota(*command, "--tables", filled, form))

    rows = list(csv.reader(io.StringIO(asked("--csv"))))
    records = json.loads(asked("--json"))
    assert rows[0] == list(records[0])
    assert len(rows) == len(records) + 1


def test_csv_keeps_quotes_commas_and_nothing(pid_quota: PidQuota, filled: Path) -> None:
    select = "SELECT principal, burst, client_ids FROM throttle_decisions"
    out = pid_quota("sql", "--tables", filled, "--csv", select)[1]
    assert list(csv.reader(io.StringIO(out))) == [
        ["principal", "burst", "client_ids"],
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
