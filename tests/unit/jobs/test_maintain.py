"""`pid-quota tables maintain` on path tables: what it deletes, what it keeps, and concurrent writers."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tables.quotas.quota_entry import QuotaEntry
from tables.quotas.quota_table import set_quota
from tables.schema.specs import TABLES
from tables.store.log_upkeep import drop_orphaned_checksums
from tables.store.open import open_store
from tables.store.path_tables import create_missing, open_table
from tables.store.upkeep import alone
from tests.kits.command_kit import PidQuota, one_error, printed
from tests.kits.upkeep_kit import (
    DECISIONS,
    HOLDS,
    METRICS,
    QUARANTINE,
    QUOTAS,
    days_ago,
    files_on_disk,
    log_names,
    make_old,
    now,
    plan,
    rows_of,
    tables_in,
    versions,
    write_batches,
)
from tests.unit.jobs.table_rows import append, decision, hold_fact, metrics

DAY = timedelta(days=1)
STREAM = "pid-quota/s"


def maintained(pid_quota: PidQuota, tables: Path, *options: object) -> dict[str, Any]:
    return tables_in(printed(pid_quota("tables", "maintain", "--tables", tables, *options)))


def test_small_files_become_one_and_no_row_is_lost(pid_quota: PidQuota, tmp_path: Path) -> None:
    write_batches(tmp_path, 30)

    done = maintained(pid_quota, tmp_path)[METRICS]

    assert (done["files_before"], done["files"], done["merged_files"]) == (30, 1, 30)
    assert (done["rows_before"], done["rows"]) == (30, 30)
    assert {row["principal"] for row in rows_of(tmp_path, METRICS)} == {f"User:{number}" for number in range(30)}


def test_where_there_is_nothing_to_do_nothing_is_written(pid_quota: PidQuota, tmp_path: Path) -> None:
    write_batches(tmp_path, 5)
    maintained(pid_quota, tmp_path)
    before, log = versions(tmp_path), log_names(tmp_path, METRICS)

    maintained(pid_quota, tmp_path)

    assert versions(tmp_path) == before
    assert log_names(tmp_path, METRICS) == log


def test_many_middling_files_become_large_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tables.store.upkeep._SMALL_FILE", 1)
    write_batches(tmp_path, 20)
    assert open_store(str(tmp_path)).keep_up(TABLES[METRICS], plan(), now()).files.merged_files == 0

    write_batches(tmp_path, 1, first=20)

    assert open_store(str(tmp_path)).keep_up(TABLES[METRICS], plan(), now()).after.files == 1


def test_rows_go_by_the_age_of_their_event(pid_quota: PidQuota, tmp_path: Path) -> None:
    append(tmp_path, METRICS, metrics("User:old", days_ago(32)), metrics("User:young", days_ago(29)))
    bad = dict.fromkeys(TABLES[QUARANTINE].schema.names)
    append(tmp_path, QUARANTINE, bad | {"reason": "old", "record_timestamp": days_ago(16)}, bad | {"reason": "undated"})

    done = maintained(pid_quota, tmp_path)

    assert [row["principal"] for row in rows_of(tmp_path, METRICS)] == ["User:young"]
    assert [row["reason"] for row in rows_of(tmp_path, QUARANTINE)] == ["undated"]
    assert (done[METRICS]["deleted_rows"], done[QUARANTINE]["deleted_rows"]) == (1, 1)


def test_retention_is_given_by_table(pid_quota: PidQuota, tmp_path: Path) -> None:
    append(tmp_path, METRICS, metrics("User:m", days_ago(5)), metrics("User:m", days_ago(400)))
    append(tmp_path, DECISIONS, decision("User:m", days_ago(400)))

    done = maintained(pid_quota, tmp_path, "--retention", f"{METRICS}=4", "--retention", f"{DECISIONS}=0")

    assert (done[METRICS]["rows"], done[DECISIONS]["rows"]) == (0, 1)


@pytest.mark.parametrize("days", [999_999, 10**12])
def test_a_retention_from_before_all_times_keeps_all_rows(pid_quota: PidQuota, tmp_path: Path, days: int) -> None:
    append(tmp_path, METRICS, metrics("User:m", days_ago(400)))
    assert maintained(pid_quota, tmp_path, "--retention", f"{METRICS}={days}")[METRICS]["rows"] == 1


@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        ("holds=9 --retention holds=8", "--retention names holds twice"),
        ("throttle_decisions=1", "views need throttle_decisions for 2 days"),
        ("producer_id_quotas=5", "not a table with a retention"),
        ("decisions=5", "not a table with a retention"),
        ("broker_status=-1", "not a number of days"),
        ("broker_status", "not a number of days"),
    ],
)
def test_a_retention_that_makes_no_sense_is_refused_before_anything_is_done(
    pid_quota: PidQuota, tmp_path: Path, wish: str, reason: str
) -> None:
    write_batches(tmp_path, 2)
    before = versions(tmp_path)
    assert reason in one_error(pid_quota("tables", "maintain", "--tables", tmp_path, "--retention", *wish.split()))
    assert versions(tmp_path) == before


def test_decisions_of_the_last_48_hours_and_those_in_force_stay(pid_quota: PidQuota, tmp_path: Path) -> None:
    young, old = now() - timedelta(hours=47, minutes=59), days_ago(10)
    append(
        tmp_path,
        DECISIONS,
        decision("User:young", young),
        decision("User:in-force", old, throttled_until=now() + DAY),
        decision("User:past", old),
    )

    maintained(pid_quota, tmp_path, "--retention", f"{DECISIONS}=2")

    assert {row["principal"] for row in rows_of(tmp_path, DECISIONS)} == {"User:young", "User:in-force"}


def test_facts_about_holds_expire_unless_they_are_in_force(pid_quota: PidQuota, tmp_path: Path) -> None:
    old, young = days_ago(200), days_ago(1)
    append(
        tmp_path,
        HOLDS,
        hold_fact("written", old, "User:past"),
        hold_fact("removed", old, "User:past", until=None),
        hold_fact("released", old, "User:released", until=now() + DAY),
        hold_fact("ignored", young, "User:young", until=None),
    )

    done = maintained(pid_quota, tmp_path)[HOLDS]

    assert {row["principal"] for row in rows_of(tmp_path, HOLDS)} == {"User:released", "User:young"}
    assert done["deleted_rows"] == 2


def test_of_several_rows_of_a_quota_the_newest_stays_however_old(pid_quota: PidQuota, tmp_path: Path) -> None:
    names = ("entity_type", "entity_name", "producer_ids_rate", "updated_at", "updated_by")
    rows = [
        ("user", None, 1.0, days_ago(900), None),
        ("user", None, 2.0, days_ago(800), None),
        ("user", "o'neill", 3.0, days_ago(700), None),
        ("user", "o'neill", 4.0, days_ago(701), None),
        ("user", "single", 5.0, days_ago(999), None),
    ]
    append(tmp_path, QUOTAS, *[dict(zip(names, row, strict=True)) for row in rows])

    maintained(pid_quota, tmp_path)

    assert sorted(row["producer_ids_rate"] for row in rows_of(tmp_path, QUOTAS)) == [2.0, 3.0, 5.0]


def test_files_of_older_versions_stay_for_their_readers(pid_quota: PidQuota, tmp_path: Path) -> None:
    write_batches(tmp_path, 3)
    reader = open_table(str(tmp_path), METRICS)
    # A file that a writer left behind when it died.
    shutil.copy(tmp_path / METRICS / files_on_disk(tmp_path, METRICS)[0], tmp_path / METRICS / "left.parquet")
    make_old(tmp_path / METRICS)

    assert maintained(pid_quota, tmp_path, "--vacuum-hours", 1)[METRICS]["vacuumed_files"] == 1
    assert "left.parquet" not in files_on_disk(tmp_path, METRICS)
    assert reader.to_pyarrow_table().num_rows == 3

    with open_store(str(tmp_path)) as store:
        done = store.keep_up(TABLES[METRICS], plan(vacuum_hours=0), now())

    assert done.files.vacuumed_files == 3
    assert len(files_on_disk(tmp_path, METRICS)) == 1
    assert len(rows_of(tmp_path, METRICS)) == 3


def test_a_vacuum_of_what_is_in_use_is_refused(pid_quota: PidQuota, tmp_path: Path) -> None:
    write_batches(tmp_path, 2)
    assert "--vacuum-hours" in one_error(pid_quota("tables", "maintain", "--tables", tmp_path, "--vacuum-hours", 0), 2)


def test_an_old_log_goes_and_the_numbers_of_the_batches_stay(pid_quota: PidQuota, tmp_path: Path) -> None:
    write_batches(tmp_path, 12, mark=False)
    make_old(tmp_path / METRICS)

    done = maintained(pid_quota, tmp_path)[METRICS]

    table = open_table(str(tmp_path), METRICS)
    assert done["log_files"] >= 12
    assert f"{table.version():020d}.checkpoint.parquet" in log_names(tmp_path, METRICS)
    assert len(log_names(tmp_path, METRICS)) <= 4
    assert table.transaction_version(STREAM) == 11
    assert len(rows_of(tmp_path, METRICS)) == 12
    write_batches(tmp_path, 1, first=12)
    assert open_table(str(tmp_path), METRICS).transaction_version(STREAM) == 12


def test_the_newest_commit_of_a_stream_stays_in_the_log(tmp_path: Path) -> None:
    write_batches(tmp_path, 12)
    make_old(tmp_path / METRICS)

    # Seven hours later the log's retention of six is over for all of them.
    open_store(str(tmp_path)).keep_up(TABLES[METRICS], plan(), now() + timedelta(hours=7))

    marks = [commit.get("userMetadata", "") for commit in open_table(str(tmp_path), METRICS).history()]
    assert any('"batch_id":11' in mark for mark in marks)


def test_checksums_go_when_their_file_has_gone(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    kept = {"_delta_log/1.json", "_delta_log/1.crc", "_delta_log/.1.json.crc", "part.parquet", ".part.parquet.crc"}
    gone = {"_delta_log/0.crc", "_delta_log/.0.json.crc", "_delta_log/.0.crc.crc", ".gone.parquet.crc"}
    for name in kept | gone:
        (tmp_path / name).touch()
    make_old(tmp_path)
    (tmp_path / ".on-its-way.parquet.crc").touch()

    assert drop_orphaned_checksums(tmp_path, now() - timedelta(hours=1)) == 4

    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == kept | {".on-its-way.parquet.crc"}


def test_a_dry_run_reports_and_changes_nothing(pid_quota: PidQuota, tmp_path: Path) -> None:
    write_batches(tmp_path, 4)
    append(tmp_path, METRICS, metrics("User:old", days_ago(50)))
    before = versions(tmp_path)

    planned = maintained(pid_quota, tmp_path, "--dry-run")[METRICS]

    assert (planned["deleted_rows"], planned["merged_files"], planned["files"]) == (1, 5, 5)
    assert versions(tmp_path) == before
    assert maintained(pid_quota, tmp_path)[METRICS]["deleted_rows"] == 1


def test_no_append_and_no_quota_of_others_is_lost_or_refused_beside_it(tmp_path: Path) -> None:
    create_missing(str(tmp_path))
    rounds = range(12)
    old = metrics("User:old", days_ago(50))

    def append_each(writer: int) -> None:
        for number in rounds:
            row = metrics(f"User:{writer}-{number}", now())
            open_store(str(tmp_path)).append(METRICS, [row])

    def set_quotas(writer: int) -> None:
        for number in rounds:
            set_quota(str(tmp_path), QuotaEntry(f"{writer}-{number}", 5.0, now(), "test"))

    def maintain() -> None:
        for _ in rounds:
            # Something to delete each time: that is what appends may meet.
            open_store(str(tmp_path)).append(METRICS, [old])
            for name in (METRICS, QUOTAS):
                open_store(str(tmp_path)).keep_up(TABLES[name], plan(vacuum_hours=1), now())

    with ThreadPoolExecutor(4) as threads:
        work = [threads.submit(append_each, n) for n in (1, 2)]
        work += [threads.submit(set_quotas, 1), threads.submit(maintain)]
        for one in work:
            one.result()

    open_store(str(tmp_path)).keep_up(TABLES[METRICS], plan(), now())
    assert len(rows_of(tmp_path, METRICS)) == 2 * len(rounds)
    assert len(rows_of(tmp_path, QUOTAS)) == len(rounds)


def test_a_step_that_met_a_commit_of_others_is_taken_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_batches(tmp_path, 4)
    append(tmp_path, METRICS, metrics("User:old", days_ago(50)))
    opened = []

    def open_and_let_others_delete(tables: str, name: str) -> DeltaTable:
        table = open_table(tables, name)
        opened.append(name)
        # The first is the one to delete from.
        if len(opened) == 1:
            open_table(tables, name).delete("principal = 'User:old'")
        return table

    monkeypatch.setattr("tables.store.path.table_to_read", open_and_let_others_delete)

    done = open_store(str(tmp_path)).keep_up(TABLES[METRICS], plan(), now())

    assert (done.deleted_rows, done.after.rows, done.after.files) == (0, 4, 1)


def test_a_second_maintenance_of_the_same_folder_is_refused(pid_quota: PidQuota, tmp_path: Path) -> None:
    write_batches(tmp_path, 3)
    with alone(str(tmp_path)):
        assert "another" in one_error(pid_quota("tables", "maintain", "--tables", tmp_path))
        assert maintained(pid_quota, tmp_path, "--dry-run")[METRICS]["files"] == 3
    assert maintained(pid_quota, tmp_path)[METRICS]["files"] == 1


def test_a_table_that_fails_does_not_keep_the_others_waiting(pid_quota: PidQuota, tmp_path: Path) -> None:
    write_batches(tmp_path, 3)
    for path in Path(tmp_path, DECISIONS, "_delta_log").glob("*.json"):
        path.write_text("{")

    code, out, err = pid_quota("tables", "maintain", "--tables", tmp_path)

    assert code == 1
    assert DECISIONS in err
    assert len(err.splitlines()) == 1
    assert tables_in(out)[METRICS]["files"] == 1


def test_tables_of_an_earlier_version_are_kept_up_without_those_it_did_not_have(
    pid_quota: PidQuota, tmp_path: Path
) -> None:
    write_batches(tmp_path, 3)
    shutil.rmtree(tmp_path / DECISIONS)
    assert DECISIONS not in maintained(pid_quota, tmp_path)
