"""`pid-quota quotas --import`: many quotas at once, all or nothing."""

import getpass
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.quotas.file import read_quotas, write_quotas
from quota.errors import InvalidQuotaError
from tables.quotas.quota_entry import QuotaEntry
from tables.quotas.quota_table import quotas_in_force, set_quota
from tables.store.path_tables import open_table
from tests.kits.command_kit import PidQuota, one_error, printed
from tests.unit.jobs.table_rows import NOON

Import = Callable[[str, str], tuple[int, str, str]]


@pytest.fixture
def imported(quotas: PidQuota, tmp_path: Path) -> Import:
    def run(name: str, text: str) -> tuple[int, str, str]:
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        return quotas("--import", file)

    return run


def in_force(folder: Path) -> dict[str | None, float]:
    return {entry.entity_name: entry.producer_ids_rate for entry in quotas_in_force(str(folder / "tables"))}


def test_a_csv_file_sets_users_and_the_default_in_one_commit(imported: Import, tmp_path: Path) -> None:
    imported("first.csv", "entity_name,producer_ids_rate\nalice,10\n")
    before = open_table(str(tmp_path / "tables"), "producer_id_quotas").version()

    assert printed(imported("many.csv", 'entity_name,producer_ids_rate\nalice,5\n"CN=b,O=c",2.5\n,100\n')) == (
        "+ the default: 100\n+ user 'CN=b,O=c': 2.5\n~ user 'alice': 10 -> 5\n"
        "2 added, 1 changed, 0 removed, 0 unchanged\n"
    )
    assert in_force(tmp_path) == {"alice": 5.0, "CN=b,O=c": 2.5, None: 100.0}
    assert open_table(str(tmp_path / "tables"), "producer_id_quotas").version() == before + 1


def test_a_file_as_a_spreadsheet_saves_it_can_be_imported(imported: Import, tmp_path: Path) -> None:
    assert imported("a.csv", "\N{BYTE ORDER MARK}entity_name,producer_ids_rate\r\nalice,5\r\n")[0] == 0
    assert in_force(tmp_path) == {"alice": 5.0}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "entity_name,producer_ids_rate\nalice,5\nbob,0\n", "line 3: producer_ids_rate=0.0 is not a quota"),
        ("a.csv", "entity_name,producer_ids_rate,producer_ids_burst\nalice,5,0\n", "line 2: producer_ids_burst=0.0 is"),
        ("a.csv", "entity_name,producer_ids_rate,producer_ids_burst\nalice,,600\n", "has no producer_ids_rate"),
        ("a.json", '[{"entity_name": "a", "producer_ids_rate": 5, "producer_ids_burst": [6]}]', "[6] is not a number"),
        (
            "a.csv",
            "entity_name,producer_ids_rate\nalice,many\n",
            "line 2: producer_ids_rate 'many' is not a number. Nothing was set",
        ),
        ("a.yaml", "- {entity_name: alice, producer_ids_rate: fifty}", "producer_ids_rate 'fifty' is not a number."),
        ("a.csv", "entity_name,producer_ids_rate\nalice,5\nalice,6\n", "alice appears twice"),
        ("a.csv", "user,rate\nalice,5\n", "has the columns ['user', 'rate']"),
        ("a.csv", "entity_name,producer_ids_rate\n", "holds no quota"),
        ("a.yaml", "", "holds no quota"),
        ("a.yaml", "---\n# alice\n", "holds no quota"),
        ("a.yaml", "- {entity_name: User:alice, producer_ids_rate: 5}\n", "entry 1: 'User:alice' is a principal"),
        ("a.yaml", "- {entity_name: 7, producer_ids_rate: 5}\n", "entry 1: entity_name 7 is not"),
        ("a.yaml", "- {entity_name: alice, producer_ids_rate: .nan}\n", "a.yaml, line 1: '.nan' is not a number"),
        ("a.yaml", "- {entity_name: alice, producer_byte_rate: 5}\n", "has the fields"),
        ("a.csv", "entity_type,entity_name,producer_ids_rate\nclient-id,app,5\n", "has the fields"),
        ("a.yaml", "alice: 5\n", "is not a list of entries"),
        ("a.yaml", "kind: KafkaUser\nspec: {}\n---\nkind: KafkaUser\n", "entry 1: has the fields ['kind', 'spec']"),
        ("a.csv", "entity_name,producer_ids_rate\nalice ,5\n", "'alice ' begins or ends with a blank"),
        (
            "a.yaml",
            "- producer_ids_rate: 5\n  entity_name: alice\n  entity_name: bob\n",
            "a.yaml, line 3: entity_name appears twice",
        ),
        ("a.yaml", "- {? [entity_name] : alice}\n", "is not valid YAML"),
        (
            "a.json",
            '[{"entity_name": "alice", "producer_ids_rate": 5,\n "producer_ids_rate": 6}]',
            "a.json, entry 1: producer_ids_rate appears twice",
        ),
        ("a.yaml", "[unclosed", "is not valid YAML"),
        ("a.json", "[unclosed", "is not valid JSON"),
        ("a.json", "", "holds no quota"),
        ("a.json", "{}", "is not a list of entries"),
        ("a.json", '[{"entity_name": "\\ud83d", "producer_ids_rate": 5}]', "is not valid UTF-8"),
        *(
            ("a.yaml", f"- {{entity_name: a, producer_ids_rate: {rate}}}\n", f"'{rate}' is not a number")
            for rate in ("010", "1:30", "0x10", "1_000", ".inf", "1:30.5")
        ),
        ("a.yaml", "- {entity_name: a, producer_ids_rate: '010'}\n", "'010' is not a number"),
        ("a.csv", "entity_name,producer_ids_rate\nalice,1_0\n", "'1_0' is not a number"),
        ("a.csv", "entity_name,producer_ids_rate,producer_ids_rate\nalice,5,6\n", "producer_ids_rate appears twice"),
        *(
            ("a.csv", f"entity_name,producer_ids_rate\n{name},5\n", message)
            for name, message in (
                ("user:bob", "quotas take the bare name, 'bob'"),
                ("Group:admins", "quotas take the bare name, 'admins'"),
                ("User:", "has no name"),
                ("*", "is not a user"),
            )
        ),
        ("a.txt", "alice=5", "no known file type"),
    ],
)
def test_a_file_with_one_mistake_sets_nothing_and_says_where(
    imported: Import, tmp_path: Path, name: str, text: str, message: str
) -> None:
    assert imported("before.csv", "entity_name,producer_ids_rate\ncarol,1\n")[0] == 0

    assert message in one_error(imported(name, text), 2)
    assert in_force(tmp_path) == {"carol": 1.0}


def test_json_is_read_as_json(imported: Import, tmp_path: Path) -> None:
    assert imported("a.json", '[{"entity_name": "\\ud83d\\ude00\\/", "producer_ids_rate": 1e1}]')[0] == 0
    assert in_force(tmp_path) == {"\N{GRINNING FACE}/": 10.0}


NAMES = st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda name: name == name.strip(" "))


@settings(deadline=None)
@given(
    names=st.sets(
        NAMES | st.sampled_from(["a\r", "\r\nb", "u\x7f", "x\x85y", "\u2028", "\ufeff", "010", "1:30"]), min_size=1
    )
)
@pytest.mark.parametrize("suffix", [".csv", ".yaml", ".json"])
def test_whatever_names_are_exported_they_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, names: set[str]
) -> None:
    file = tmp_path_factory.getbasetemp() / f"names{suffix}"
    write_quotas(file, [QuotaEntry(name, 5.0, NOON, None) for name in names])
    assert read_quotas(file, lambda _: None).keys() == names


def test_a_file_may_have_several_documents(imported: Import, tmp_path: Path) -> None:
    text = "- {entity_name: alice, producer_ids_rate: 5}\n---\nentity_name: bob\nproducer_ids_rate: 6\n---\n"
    assert imported("a.yaml", text)[0] == 0
    assert in_force(tmp_path) == {"alice": 5.0, "bob": 6.0}


@pytest.mark.parametrize("name", ["a.json", "a.yaml"])
def test_an_empty_list_means_that_there_are_no_quotas(
    quotas: PidQuota, imported: Import, tmp_path: Path, name: str
) -> None:
    imported("before.csv", "entity_name,producer_ids_rate\ncarol,1\n")
    assert imported(name, "[]\n")[0] == 0
    assert in_force(tmp_path) == {"carol": 1.0}

    assert printed(quotas("--import", tmp_path / name, "--prune")).startswith(
        "- user 'carol': 1\n0 added, 0 changed, 1 rem"
    )
    assert in_force(tmp_path) == {}
    printed(quotas("--export", tmp_path / f"again-{name}"))
    printed(quotas("--import", tmp_path / f"again-{name}"))


def test_of_many_changes_the_first_ten_are_printed_and_the_others_counted(imported: Import) -> None:
    out = printed(imported("a.csv", "entity_name,producer_ids_rate\n" + "".join(f"u{n:02},5\n" for n in range(12))))
    *shown, more, counts = out.splitlines()
    assert shown == [f"+ user 'u{number:02}': 5" for number in range(10)]
    assert (more, counts) == ("and 2 more changes: see --json", "12 added, 0 changed, 0 removed, 0 unchanged")


def test_a_name_with_a_blank_at_an_end_is_refused_everywhere(tmp_path: Path) -> None:
    with pytest.raises(InvalidQuotaError, match="write 'alice'"):
        set_quota(str(tmp_path), QuotaEntry("alice ", 5.0, NOON, "test"))


def test_a_missing_file_is_one_line(quotas: PidQuota, tmp_path: Path) -> None:
    assert "nowhere.csv can't be read" in one_error(quotas("--import", tmp_path / "nowhere.csv"), 2)


class TestAsCode:
    """A repository of quotas, applied by CI."""

    @pytest.fixture
    def file(self, quotas: PidQuota, tmp_path: Path) -> Path:
        """Quotas of four entities are set; the file has three of them and a new one."""
        file = tmp_path / "quotas.csv"
        file.write_text("entity_name,producer_ids_rate\n,100\nalice,10\nbob,0.1\ncarol,3\n", encoding="utf-8")
        assert quotas("--import", file)[0] == 0
        file.write_text("entity_name,producer_ids_rate\n<default>,100\nalice,20\ncarol,3\ndave,7\n", encoding="utf-8")
        return file

    def version(self, tmp_path: Path) -> int:
        return open_table(str(tmp_path / "tables"), "producer_id_quotas").version()

    def test_a_dry_run_shows_the_difference_and_sets_nothing(
        self, quotas: PidQuota, file: Path, tmp_path: Path
    ) -> None:
        before = self.version(tmp_path)

        code, out, err = quotas("--import", file, "--dry-run")

        assert (code, err) == (3, "")
        assert out.splitlines() == [
            "~ user 'alice': 10 -> 20",
            "+ user 'dave': 7",
            "dry run, nothing is set: 1 to add, 1 to change, 0 to remove, 2 unchanged",
            "kept, although not in the file (see --prune): 1 quota",
        ]
        assert self.version(tmp_path) == before

    def test_pruning_removes_what_the_file_lacks_in_the_same_commit(
        self, quotas: PidQuota, file: Path, tmp_path: Path
    ) -> None:
        before, no_burst = self.version(tmp_path), {"before_burst": None, "after_burst": None}

        assert json.loads(printed(quotas("--import", file, "--prune", "--json"))) == {
            "done": "set",
            "changes": [
                {"change": "change", "entity_name": "alice", "before": 10.0, "after": 20.0} | no_burst,
                {"change": "remove", "entity_name": "bob", "before": 0.1, "after": None} | no_burst,
                {"change": "add", "entity_name": "dave", "before": None, "after": 7.0} | no_burst,
            ],
            "unchanged": 2,
            "not_in_file": 0,
        }
        assert in_force(tmp_path) == {None: 100.0, "alice": 20.0, "carol": 3.0, "dave": 7.0}
        assert self.version(tmp_path) == before + 1

    def test_bursts_are_compared_too_and_a_file_without_one_takes_it_away(self, quotas: PidQuota, file: Path) -> None:
        file.write_text("entity_name,producer_ids_rate,producer_ids_burst\nalice,10,600\ncarol,3,\n", encoding="utf-8")
        _, out, _ = quotas("--import", file, "--dry-run")
        assert out.startswith("~ user 'alice': 10 -> 10, burst 600\ndry run")
        quotas("--import", file)

        file.write_text("- {entity_name: alice, producer_ids_rate: 10}\n", encoding="utf-8")
        _, out, _ = quotas("--import", file.rename(file.with_suffix(".yaml")), "--json")

        assert json.loads(out)["changes"] == [
            {"change": "change", "entity_name": "alice", "before": 10.0, "after": 10.0, "before_burst": 600.0,
             "after_burst": None}
        ]  # fmt: skip

    def test_what_stays_as_it_is_keeps_who_set_it_and_when(self, quotas: PidQuota, file: Path, tmp_path: Path) -> None:
        def who() -> dict[str | None, str | None]:
            return {entry.entity_name: entry.updated_by for entry in quotas_in_force(str(tmp_path / "tables"))}

        quotas("--alter", "--add-config", "producer_ids_rate=3", "--entity-name", "carol")
        quotas("--import", file)

        assert (who()["carol"], who()["alice"]) == (getpass.getuser(), f"{getpass.getuser()}: {file}")

    @pytest.mark.parametrize("suffix", [".csv", ".yaml", ".yml", ".json"])
    def test_an_export_imported_again_changes_nothing_and_is_the_same_file(
        self, quotas: PidQuota, file: Path, tmp_path: Path, suffix: str
    ) -> None:
        for name in ("7", "null", 'CN=a,O="b"', "łódź", "x y", "- y: 1", "#"):
            change = ("--add-config", "producer_ids_rate=0.30000000000000004", "--entity-name", name)
            assert quotas("--alter", *change)[0] == 0
        export, again = tmp_path / f"export{suffix}", tmp_path / f"again{suffix}"
        assert quotas("--alter", "--add-config", "producer_ids_burst=600.5", "--entity-name", "7")[0] == 0
        before = self.version(tmp_path)

        assert quotas("--export", export) == (0, "exported: 11 quotas\n", "")
        dry, done = quotas("--import", export, "--prune", "--dry-run"), quotas("--import", export, "--prune")
        assert quotas("--export", again)[0] == 0

        assert (dry[0], done[0], done[1]) == (0, 0, "0 added, 0 changed, 0 removed, 11 unchanged\n")
        assert self.version(tmp_path) == before
        assert again.read_bytes() == export.read_bytes()
