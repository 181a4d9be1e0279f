"""The commands that the console offers to copy do what they say, whatever strangers are called."""

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.web.pages import ConsoleData
from jobs.web.quota_pages import quotas
from quota.allowance import Allowance
from quota.typed import typed
from tables.quotas.quota_entry import QuotaEntry
from tables.quotas.quota_table import quotas_in_force, set_quota
from tables.store.path_tables import create_missing
from tests.kits.command_kit import PidQuota, printed
from tests.unit.jobs.table_rows import NOON, append, metrics, seconds

HOSTILE = ["o'neill", "a b; rm -rf ~", "$(reboot)`id`", "-x", "a\x03rm -rf ~\n", "a\u202eb\\'\x1b[201~", "jürgen, 王"]


@pytest.fixture
def data(tmp_path: Path) -> ConsoleData:
    create_missing(str(tmp_path / "tables"))
    return ConsoleData(str(tmp_path / "tables"))


def pasted(command: str) -> list[str]:
    """Return the words that a shell makes of a command."""
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True)
    return done.stdout.decode().split("\0")[:-1]


def test_it_shows_quota_suggestion_and_what_both_would_refuse(data: ConsoleData) -> None:
    rows = [metrics("User:alice", NOON - seconds(3600 * n), admitted_pids=30, new_pids_window=30) for n in range(4)]
    append(data.tables, "producer_id_metrics", *rows)
    set_quota(data.tables, QuotaEntry(None, 20.0, NOON, "ops"))
    page = quotas(data, NOON)
    (alice,) = page["quotas"]
    assert (alice["rate"], alice["own_rate"], alice["most_pids"], alice["pids_over"]) == (20.0, None, 30, 90)
    assert (alice["suggested"], alice["suggested_over"]) == (45.0, 0)
    assert (page["default"]["producer_ids_rate"], page["default_over"]) == (20.0, 90)


def test_the_default_would_have_refused_only_who_has_no_quota_of_its_own(data: ConsoleData) -> None:
    rows = [metrics(f"User:{name}", NOON, admitted_pids=30, new_pids_window=30) for name in ("alice", "bob")]
    append(data.tables, "producer_id_metrics", *rows)
    for name, rate in ((None, 20.0), ("alice", 50.0)):
        set_quota(data.tables, QuotaEntry(name, rate, NOON, "ops"))
    assert quotas(data, NOON)["default_over"] == 10


@pytest.mark.parametrize("name", HOSTILE)
def test_the_commands_of_a_row_set_the_suggestion_and_delete_the_quota(
    data: ConsoleData, pid_quota: PidQuota, name: str
) -> None:
    append(data.tables, "producer_id_metrics", metrics(f"User:{name}", NOON, admitted_pids=30, new_pids_window=30))
    (row,) = quotas(data, NOON)["quotas"]
    assert row["delete_command"] is None
    assert row["set_command"].isprintable()
    printed(pid_quota(*pasted(row["set_command"])[1:]))
    assert {each.entity_name: each.allowance for each in quotas_in_force(data.tables)} == {name: Allowance(45, 45)}
    (row,) = quotas(data, NOON)["quotas"]
    printed(pid_quota(*pasted(row["delete_command"])[1:]))
    assert quotas_in_force(data.tables) == []


def test_the_commands_of_the_default_set_and_delete_it(data: ConsoleData, pid_quota: PidQuota) -> None:
    for rate, quota in ((50.0, None), (7.0, QuotaEntry(None, 7.0, NOON, "ops", 9.0))):
        if quota is not None:
            set_quota(data.tables, quota)
        commands = quotas(data, NOON)["default_commands"]
        printed(pid_quota(*shlex.split(commands["set_command"])[1:]))
        assert [(each.entity_name, each.producer_ids_rate) for each in quotas_in_force(data.tables)] == [(None, rate)]
    printed(pid_quota(*shlex.split(commands["delete_command"])[1:]))
    assert quotas_in_force(data.tables) == []


def test_a_row_without_a_suggestion_offers_its_own_quota_to_change(data: ConsoleData) -> None:
    set_quota(data.tables, QuotaEntry("bob", 9.0, NOON, "ops", 600.0))
    (row,) = quotas(data, NOON)["quotas"]
    assert row["set_command"].endswith("--entity-name bob --add-config producer_ids_rate=9,producer_ids_burst=600")


def test_tables_are_named_so_that_another_folder_finds_them(data: ConsoleData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(data.tables).parent)
    assert f" --tables {data.tables} " in quotas(ConsoleData("./tables"), NOON)["another_command"]


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
def test_a_shell_reads_the_name_that_a_command_contains(name: str) -> None:
    command = typed((name,))
    assert command.isprintable()
    assert pasted(command) == [name]
