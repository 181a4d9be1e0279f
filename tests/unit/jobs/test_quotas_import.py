"""`pid-quota quotas --import`: many quotas at once, all or nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tables.delta import open_table
from tables.quotas.quota_table import quotas_in_force
from tests.unit.jobs.command_kit import PidQuota


@pytest.fixture
def imported(pid_quota: PidQuota, tmp_path: Path) -> Callable[[str, str], tuple[int, str, str]]:
    def run(name: str, text: str) -> tuple[int, str, str]:
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        return pid_quota("quotas", "--tables", tmp_path / "tables", "--import", file)

    return run


def in_force(folder: Path) -> dict[str | None, float]:
    return {entry.entity_name: entry.producer_ids_rate for entry in quotas_in_force(str(folder / "tables"))}


def test_a_csv_file_sets_users_and_the_default_in_one_commit(
    imported: Callable[[str, str], tuple[int, str, str]], tmp_path: Path
) -> None:
    imported("first.csv", "entity_name,producer_ids_rate\nalice,10\n")
    before = open_table(str(tmp_path / "tables"), "producer_id_quotas").version()

    code, out, err = imported("many.csv", 'entity_name,producer_ids_rate\nalice,5\n"CN=b,O=c",2.5\n,100\n')

    assert (code, err) == (0, "")
    assert "3 entities" in out
    assert in_force(tmp_path) == {"alice": 5.0, "CN=b,O=c": 2.5, None: 100.0}
    assert open_table(str(tmp_path / "tables"), "producer_id_quotas").version() == before + 1


def test_what_describe_writes_can_be_imported(
    imported: Callable[[str, str], tuple[int, str, str]], pid_quota: PidQuota, tmp_path: Path
) -> None:
    imported("a.yaml", "- {entity_name: alice, producer_ids_rate: 5}\n- {entity_name: null, producer_ids_rate: 7}\n")
    _, described, _ = pid_quota("quotas", "--tables", tmp_path / "tables", "--describe", "--json")

    assert imported("again.json", described)[0] == 0
    assert in_force(tmp_path) == {"alice": 5.0, None: 7.0}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "entity_name,producer_ids_rate\nalice,5\nbob,0\n", "line 3: producer_ids_rate=0.0 is not a quota"),
        ("a.csv", "entity_name,producer_ids_rate\nalice,many\n", "line 2: could not convert"),
        ("a.csv", "entity_name,producer_ids_rate\nalice,5\nalice,6\n", "alice appears twice"),
        ("a.csv", "user,rate\nalice,5\n", "has the columns ['user', 'rate']"),
        ("a.csv", "entity_name,producer_ids_rate\n", "holds no quota"),
        ("a.yaml", "- {entity_name: User:alice, producer_ids_rate: 5}\n", "entry 1: entity_name"),
        ("a.yaml", "- {entity_name: 7, producer_ids_rate: 5}\n", "entry 1: entity_name 7"),
        ("a.yaml", "- {entity_name: alice, producer_ids_rate: .nan}\n", "is not a quota"),
        ("a.yaml", "- {entity_name: alice, producer_byte_rate: 5}\n", "has the fields"),
        ("a.yaml", "alice: 5\n", "is not a list of entries"),
        ("a.yaml", "[unclosed", "is not valid YAML"),
        ("a.txt", "alice=5", "no known file type"),
    ],
)
def test_a_file_with_one_mistake_sets_nothing_and_says_where(
    imported: Callable[[str, str], tuple[int, str, str]], tmp_path: Path, name: str, text: str, said: str
) -> None:
    assert imported("before.csv", "entity_name,producer_ids_rate\ncarol,1\n")[0] == 0

    code, out, err = imported(name, text)

    assert (code, out) == (1, "")
    assert said in err
    assert err.count("\n") == 1
    assert in_force(tmp_path) == {"carol": 1.0}


def test_a_missing_file_is_one_line(pid_quota: PidQuota, tmp_path: Path) -> None:
    code, _, err = pid_quota("quotas", "--tables", tmp_path / "tables", "--import", tmp_path / "nowhere.csv")

    assert code == 1
    assert "nowhere.csv can't be read" in err
