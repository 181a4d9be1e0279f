"""`pid-quota quotas` on real Delta tables: set, delete, describe, refuse, and concurrent admins."""

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tables.quotas.quota_entry import QuotaEntry
from tables.quotas.quota_table import delete_quota, quotas_in_force, set_quota
from tables.schema.specs import TABLES
from tables.store.path_tables import create_missing, table_path
from tests.kits.command_kit import PidQuota, one_error, printed
from tests.unit.jobs.table_rows import append, metrics

NOON = datetime(2026, 1, 15, 12, tzinfo=timezone.utc)
Described = Callable[..., dict[str | None, float]]


@pytest.fixture
def described(quotas: PidQuota) -> Described:
    def read(*arguments: object) -> dict[str | None, float]:
        out = printed(quotas("--describe", "--json", *arguments))
        return {entry["entity_name"]: entry["producer_ids_rate"] for entry in json.loads(out)}

    return read


@pytest.mark.parametrize(
    "name", ["user1", "CN=a,O=b c", "two  spaces", "łódź 🚚", "system:user:x", "it's", 'a"b', "%_\\", "x" * 500]
)
def test_a_user_s_quota_is_set_changed_and_deleted_whatever_the_name(
    quotas: PidQuota, described: Described, name: str
) -> None:
    entity = ("--entity-type", "users", "--entity-name", name)

    assert quotas("--alter", "--add-config", "producer_ids_rate=50", *entity)[0] == 0
    assert quotas("--alter", "--add-config", "producer_ids_rate=[0.5]", *entity)[0] == 0
    assert described("--entity-name", name) == {name: 0.5}

    assert quotas("--alter", "--delete-config", "producer_ids_rate", *entity)[0] == 0
    assert described() == {}


def test_a_change_without_an_entity_is_refused_instead_of_set_for_everybody(
    quotas: PidQuota, described: Described
) -> None:
    code, _, error = quotas("--alter", "--add-config", "producer_ids_rate=5", "--entity-type", "users")
    assert code == 2
    assert "--entity-default" in error
    assert described() == {}


def test_the_default_is_apart_from_the_users(quotas: PidQuota, described: Described) -> None:
    quotas("--alter", "--add-config", "producer_ids_rate=20", "--entity-default")
    quotas("--alter", "--add-config", "producer_ids_rate=50", "--entity-name", "user1")
    assert described() == {None: 20, "user1": 50}
    assert described("--entity-default") == {None: 20}

    quotas("--alter", "--add-config", "producer_ids_rate=30", "--entity-type", "users", "--entity-default")
    assert described("--entity-default") == {None: 30}

    quotas("--alter", "--delete-config", "producer_ids_rate", "--entity-default")
    assert described() == {"user1": 50}


@pytest.mark.parametrize(
    "numbers",
    [
        *(f"producer_ids_rate={rate}" for rate in ("0", "-1", "nan", "inf", "-inf", "1e12", "many", "", "1,5")),
        *(f"producer_ids_rate=5,producer_ids_burst={each}" for each in ("0", "-1", "nan", "inf", "1e12", "many", "")),
    ],
)
def test_a_number_that_is_no_quota_is_refused_in_one_line(quotas: PidQuota, described: Described, numbers: str) -> None:
    quotas("--alter", "--add-config", "producer_ids_rate=20", "--entity-default")
    error = one_error(quotas("--alter", "--add-config", numbers, "--entity-default"))
    assert numbers.rpartition(",")[2].partition("=")[0] in error
    assert described() == {None: 20}


def test_a_burst_is_set_beside_the_rate_changed_alone_and_deleted_alone(quotas: PidQuota) -> None:
    def after(*change: str) -> tuple[float, float | None] | None:
        assert quotas("--alter", *change, "--entity-name", "app")[0] == 0
        rows = json.loads(quotas("--describe", "--json")[1])
        return (rows[0]["producer_ids_rate"], rows[0]["producer_ids_burst"]) if rows else None

    assert after("--add-config", "producer_ids_rate=10,producer_ids_burst=600") == (10, 600)
    # What is not named stays, as with kafka-configs.sh.
    assert after("--add-config", "producer_ids_rate=20") == (20, 600)
    assert after("--add-config", "producer_ids_burst=[700]") == (20, 700)
    assert "700" in quotas("--describe")[1]
    assert after("--delete-config", "producer_ids_burst") == (20, None)
    assert after("--add-config", "producer_ids_burst=5") == (20, 5)
    assert after("--delete-config", "producer_ids_rate") is None


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--alter", "--add-config", "producer_byte_rate=5", "--entity-default"), 1, "producer_ids_rate"),
        (("--alter", "--add-config", "producer_ids_rate", "--entity-default"), 1, "no value"),
        (("--alter", "--add-config", "producer_ids_burst=5", "--entity-default"), 1, "has no producer_ids_rate"),
        (("--alter", "--add-config", "producer_ids_rate=5,producer_ids_rate=6", "--entity-default"), 1, "twice"),
        (("--alter", "--delete-config", "producer_ids_burst", "--entity-default"), 1, "no producer_ids_burst"),
        (("--alter", "--delete-config", "rate", "--entity-default"), 1, "producer_ids_rate"),
        (("--alter", "--add-config", "producer_ids_rate=5"), 2, "--entity-name"),
        (("--alter", "--entity-default"), 2, "--add-config"),
        (("--alter", "--describe"), 2, "--describe"),
        ((), 2, "--describe"),
        (("--describe", "--entity-type", "clients"), 2, "clients"),
        (("--describe", "--entity-name", "a", "--entity-default"), 2, "--entity-default"),
        (("--describe", "--add-config", "producer_ids_rate=5"), 2, "--alter"),
        (("--alter", "--add-config", "producer_ids_rate=5", "--entity-name", "<default>"), 2, "--entity-default"),
        (("--alter", "--add-config", "producer_ids_rate=5", "--entity-name", "User:alice"), 2, "'alice'"),
        *(
            (("--alter", "--add-config", "producer_ids_rate=5", "--entity-name", name), 2, message)
            for name, message in {
                "user:bob": "quotas take the bare name, 'bob'",
                "USER:carol": "quotas take the bare name, 'carol'",
                "Users:dave": "quotas take the bare name, 'dave'",
                "Group:admins": "quotas take the bare name, 'admins'",
                "User:user:eve": "quotas take the bare name, 'user:eve'",
                "bob,carol": "is not one user",
                "*": "use --entity-default",
                "User:*": "use --entity-default",
                "User:": "has no name",
                "alice ": "write 'alice'",
            }.items()
        ),
        (("--suggest", "--entity-name", "user:bob"), 2, "quotas take the bare name, 'bob'"),
        (("--alter", "--add-config", "producer_ids_rate=1_0", "--entity-default"), 1, "is not a number"),
        (("--alter", "--add-config", "producer_ids_rate=5", "--entity-name", ""), 2, "--entity-name is empty"),
        (("--alter", "--add-config", "producer_ids_rate=5", "--entity-name", "\udcff"), 2, "UTF-8"),
        (("--export", "quotas.txt"), 1, "no known file type"),
        (("--export", "/nowhere/quotas.csv"), 1, "can't be written"),
        (("--describe", "--dry-run"), 2, "--dry-run needs --import"),
        (("--export", "a.csv", "--prune"), 2, "--prune needs --import"),
        (("--export", "a.csv", "--describe"), 2, "give one of"),
    ],
)
def test_an_impossible_change_is_refused_in_one_line(
    quotas: PidQuota, arguments: tuple[str, ...], code: int, message: str
) -> None:
    assert message in one_error(quotas(*arguments), code)


def test_an_unknown_user_is_one_line_with_the_quota_in_force(quotas: PidQuota) -> None:
    quotas("--alter", "--add-config", "producer_ids_rate=20", "--entity-default")
    err = one_error(quotas("--describe", "--entity-name", "nobody"))
    assert "'nobody' has no quota" in err
    assert "20" in err


def test_a_name_like_a_principal_counts_if_tables_know_its_user_or_have_its_quota(
    quotas: PidQuota, described: Described, tmp_path: Path
) -> None:
    known = ("User:user:bob", "ServiceAccount:sa-1")
    append(tmp_path / "tables", "producer_id_metrics", *(metrics(each, NOON) for each in known))
    of_another_type = quotas("--alter", "--add-config", "producer_ids_rate=5", "--entity-name", "ServiceAccount:sa-1")
    assert "quotas take the bare name, 'sa-1'" in one_error(of_another_type, 2)
    set_quota(str(tmp_path / "tables"), QuotaEntry("*", 5.0, NOON, "another version"))

    assert quotas("--alter", "--add-config", "producer_ids_rate=5", "--entity-name", "user:bob")[0] == 0
    assert described("--entity-name", "*") == {"*": 5.0}
    assert quotas("--export", tmp_path / "a.csv")[0] == 0
    assert printed(quotas("--import", tmp_path / "a.csv")).startswith("0 added, 0 changed")
    assert quotas("--alter", "--delete-config", "producer_ids_rate", "--entity-name", "*")[0] == 0
    assert described() == {"user:bob": 5.0}


def test_a_quota_that_is_not_there_can_t_be_deleted(quotas: PidQuota) -> None:
    quotas("--alter", "--add-config", "producer_ids_rate=20", "--entity-default")
    assert "nobody" in one_error(quotas("--alter", "--delete-config", "producer_ids_rate", "--entity-name", "nobody"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--describe",),
        ("--alter", "--add-config", "producer_ids_rate=5", "--entity-default"),
        ("--alter", "--delete-config", "producer_ids_rate", "--entity-default"),
        ("--import", "quotas.csv"),
        ("--import", "quotas.csv", "--dry-run"),
    ],
)
def test_a_mistyped_folder_is_one_line_with_the_remedy_and_stays_unmade(
    pid_quota: PidQuota, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("quotas.csv").write_text("entity_name,producer_ids_rate\nalice,5\n", encoding="utf-8")

    err = one_error(pid_quota("quotas", "--tables", "typo", *arguments))
    assert err.startswith("error: no table producer_id_quotas in typo. Check --tables")
    assert "`pid-quota tables create --tables typo`" in err
    assert not Path("typo").exists()


def test_of_duplicate_rows_the_newest_holds(tmp_path: Path) -> None:
    create_missing(str(tmp_path))
    rows = [("a", 1.0, NOON.replace(hour=13)), ("a", 2.0, NOON), (None, 3.0, NOON)]
    row_dicts = [
        {"entity_type": "user", "entity_name": name, "producer_ids_rate": rate, "updated_at": at, "updated_by": None}
        for name, rate, at in rows
    ]
    table = pa.Table.from_pylist(row_dicts, schema=TABLES["producer_id_quotas"].schema)
    write_deltalake(table_path(str(tmp_path), "producer_id_quotas"), table, mode="append")

    assert [(entry.entity_name, entry.producer_ids_rate) for entry in quotas_in_force(str(tmp_path))] == [
        (None, 3.0),
        ("a", 1.0),
    ]


def test_admins_at_once_lose_no_update(tmp_path: Path) -> None:
    tables = str(tmp_path)
    set_quota(tables, QuotaEntry("shared", 1.0, NOON, "before"))
    set_quota(tables, QuotaEntry("to delete", 1.0, NOON, "before"))

    def admin(number: int) -> None:
        for turn in range(4):
            set_quota(tables, QuotaEntry(f"user {number}.{turn}", number + 1.0, NOON, f"admin {number}"))
            set_quota(tables, QuotaEntry("shared", number + 1.0, NOON, f"admin {number}"))
        if number == 0:
            delete_quota(tables, "to delete")

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(admin, range(3)))

    found = {entry.entity_name: entry.producer_ids_rate for entry in quotas_in_force(tables)}
    assert found.pop("shared") in (1.0, 2.0, 3.0)
    assert found == {f"user {number}.{turn}": number + 1.0 for number in range(3) for turn in range(4)}


def test_a_table_with_other_comments_on_its_columns_takes_quotas(tmp_path: Path) -> None:
    # As another version of us made it.
    schema = pa.schema([field.with_metadata({"comment": "old words"}) for field in TABLES["producer_id_quotas"].schema])
    DeltaTable.create(tmp_path / "producer_id_quotas", schema)

    set_quota(str(tmp_path), QuotaEntry("alice", 5.0, NOON, "test"))

    assert [entry.producer_ids_rate for entry in quotas_in_force(str(tmp_path))] == [5.0]


def test_rows_that_can_be_no_quotas_are_warned_of_and_can_be_deleted(quotas: PidQuota, tmp_path: Path) -> None:
    # Given a table without our constraints, made by hand.
    shutil.rmtree(tmp_path / "tables")
    good = {"entity_type": "user", "updated_at": NOON, "updated_by": None, "producer_ids_rate": 5.0, "entity_name": "a"}
    bad = [{"entity_name": f"b{number}", "producer_ids_rate": rate} for number, rate in enumerate((-5.0, 1e300))]
    rows = pa.Table.from_pylist([good, *(good | each for each in bad)], schema=TABLES["producer_id_quotas"].schema)
    write_deltalake(table_path(str(tmp_path / "tables"), "producer_id_quotas"), rows)

    code, out, err = quotas("--describe", "--json")
    assert (code, [entry["entity_name"] for entry in json.loads(out)]) == (0, ["a"])
    assert err.splitlines() == [
        "warning: a row of quotas is invalid: user 'b0': producer_ids_rate=-5.0 is not a quota: it must be a number "
        "above 0 and below 1e+12; to lift a quota, delete it",
        "warning: a row of quotas is invalid: user 'b1': producer_ids_rate=1e+300 is not a quota: it must be a "
        "number above 0 and below 1e+12; to lift a quota, delete it",
    ]

    for name in ("b0", "b1"):
        assert quotas("--alter", "--delete-config", "producer_ids_rate", "--entity-name", name)[0] == 0
    assert quotas("--describe")[2] == ""
