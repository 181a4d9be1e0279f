"""Output formats: rows as JSON and as CSV, progress bars on terminals only."""

import csv
import io
import json
from pathlib import Path

import pytest

from tests.kits.command_kit import PidQuota, printed
from tests.kits.kip_kit import init, now
from tests.unit.jobs.table_rows import append, decision, metrics

VIEWS = ("principal_metrics", "init_outcomes", "classified_inits", "throttle_decisions")


@pytest.fixture
def filled(pid_quota: PidQuota, tmp_path: Path) -> Path:
    append(tmp_path, "producer_id_metrics", metrics('User:a,"b"', now()))
    append(tmp_path, "throttle_decisions", decision('User:a,"b"', now()))
    append(tmp_path, "producer_inits", init(now(), 1))
    change = ("--alter", "--add-config", "producer_ids_rate=5", "--entity-default")
    assert pid_quota("quotas", "--tables", tmp_path, *change)[0] == 0
    return tmp_path


@pytest.mark.parametrize("view", VIEWS)
def test_csv_holds_the_rows_of_the_json(pid_quota: PidQuota, filled: Path, view: str) -> None:
    def asked(form: str) -> str:
        return printed(pid_quota("sql", "--view", view, "--tables", filled, form))

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
