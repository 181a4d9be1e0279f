"""`pid-quota quotas --suggest` on a hand-made history."""

import csv
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tables.store.path_tables import create_missing
from tests.kits.command_kit import PidQuota, one_error, printed
from tests.kits.kip_kit import ago, init
from tests.unit.jobs.table_rows import NOON, append, metrics, seconds


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    rows = [metrics("User:busy", NOON + seconds(3600 * hour), admitted_pids=60, refused_pids=10) for hour in range(5)]
    rows += [metrics("User:busy", NOON + seconds(3600 * hour - 60), admitted_pids=30) for hour in range(5)]
    rows += [
        metrics("User:calm", NOON, admitted_pids=2),
        metrics("User:new", NOON, admitted_pids=40, phase="learning"),
        metrics("unknown", NOON, admitted_pids=500),
        metrics("User:ANONYMOUS", NOON, admitted_pids=500),
    ]
    append(tmp_path, "producer_id_metrics", *rows)
    return tmp_path


def suggest(pid_quota: PidQuota, tables: Path, *arguments: object) -> list[dict[str, Any]]:
    out = printed(pid_quota("quotas", "--suggest", "--tables", tables, "--json", *arguments))
    rows: list[dict[str, Any]] = json.loads(out)
    return rows


def test_a_quota_fits_the_new_pids_of_a_window_refused_ones_too(pid_quota: PidQuota, tables: Path) -> None:
    busy, calm = suggest(pid_quota, tables)

    # A row belongs to the window that its interval lies in, not to the one that begins at its end.
    assert (busy["principal"], busy["windows"], busy["most_pids"]) == ("User:busy", 5, 100)
    assert (busy["suggested"], busy["quota_now"]) == (150.0, None)
    assert (calm["principal"], calm["suggested"]) == ("User:calm", 10.0)


def test_whose_clients_have_to_be_mended_is_marked_with_what_will_do_then(pid_quota: PidQuota, tables: Path) -> None:
    # One at a time until now: 300 ids from one address that have stopped may be a batch's start.
    rows = [init(ago(300 - number), number, principal="User:busy") for number in range(300)]
    # Pods of three roll-outs, and one that lives.
    rows += [
        init(ago(7500 * (1 + number // 8)), 1000 + number, principal="User:busy", client_id="pod")
        for number in range(24)
    ]
    rows += [init(ago(60), 2000, principal="User:calm")]
    append(tables, "producer_inits", *rows)

    busy, calm = suggest(pid_quota, tables)
    message = pid_quota("quotas", "--suggest", "--tables", tables)[1]

    cause = "likely producer per message/batch, else leak, scale-out, deploy or restart loop"
    assert (busy["suggested"], busy["looks_like"]) == (150.0, cause)
    # Nine processes: one for the client that makes producers all the time, eight for the roll-outs.
    assert busy["once_mended"] == 14.0
    assert (calm["looks_like"], calm["once_mended"]) == (None, None)
    assert f"User:busy: {cause}. Fix that first (pid-quota why User:busy)" in message


def test_peaks_that_may_be_deploys_become_a_burst_though_it_can_t_tell(pid_quota: PidQuota, tmp_path: Path) -> None:
    # Two roll-outs of 40 pods behind one address, 20 minutes apart: closer than deploys usually are.
    inits = [init(ago(1300 * (1 + pod // 40) + pod % 40), pod, principal="User:pods") for pod in range(80)]
    rows = [metrics("User:pods", NOON + seconds(3600 * hour), admitted_pids=2) for hour in range(100)]
    rows += [metrics("User:pods", NOON + seconds(3600 * 100), admitted_pids=80)]
    append(tmp_path, "producer_id_metrics", *rows)
    append(tmp_path, "producer_inits", *inits)

    (pods,) = suggest(pid_quota, tmp_path)

    assert pods["looks_like"].startswith("can't tell: ")
    assert (pods["suggested"], pods["burst"], pods["once_mended"]) == (10.0, 96.0, 60.0)
    assert "If it needs a fix, fix that first" in pid_quota("quotas", "--suggest", "--tables", tmp_path)[1]


def test_peaks_of_clients_that_have_to_be_mended_are_no_reason_for_a_burst(pid_quota: PidQuota, tmp_path: Path) -> None:
    # A transactional id for each producer, on 20 hosts.
    inits = [
        init(ago(900 - pid), pid, principal="User:flink", transactional_id=f"t{pid}", client_host=f"10.0.0.{pid % 20}")
        for pid in range(300)
    ]
    rows = [metrics("User:flink", NOON + seconds(3600 * hour), admitted_pids=2) for hour in range(100)]
    append(tmp_path, "producer_id_metrics", *rows, metrics("User:flink", NOON + seconds(3600 * 100), admitted_pids=300))
    append(tmp_path, "producer_inits", *inits)

    (flink,) = suggest(pid_quota, tmp_path)

    assert flink["looks_like"].startswith("likely new transactional id each time")
    assert (flink["suggested"], flink["burst"], flink["once_mended"]) == (10.0, 10.0, 30.0)


def test_who_has_no_quota_of_its_own_is_shown_with_the_default(pid_quota: PidQuota, tables: Path) -> None:
    create_missing(str(tables))
    numbers = "producer_ids_rate=7,producer_ids_burst=70"
    pid_quota("quotas", "--tables", tables, "--alter", "--entity-default", "--add-config", numbers)

    assert [(row["quota_now"], row["burst_now"]) for row in suggest(pid_quota, tables)] == [(7, 70)] * 2


def test_the_line_to_type_for_one_user_sets_what_is_suggested_and_nothing_before(
    pid_quota: PidQuota, tables: Path
) -> None:
    line = printed(pid_quota("quotas", "--tables", tables, "--suggest", "--entity-name", "busy"))
    assert "'producer_ids_rate" not in line
    assert suggest(pid_quota, tables)[0]["quota_now"] is None
    # The tables of this test have no table of quotas yet.
    create_missing(str(tables))
    assert pid_quota(*shlex.split(line)[1:])[0] == 0
    assert (suggest(pid_quota, tables)[0]["quota_now"], suggest(pid_quota, tables)[0]["burst_now"]) == (150.0, 150.0)
    assert pid_quota("quotas", "--tables", tables, "--suggest", "--entity-name", "nobody")[0] == 1


def test_the_exported_file_is_what_import_takes(pid_quota: PidQuota, tables: Path, tmp_path: Path) -> None:
    file = tmp_path / "quotas.csv"
    suggest(pid_quota, tables, "--export", str(file))

    with file.open(newline="") as lines:
        assert list(csv.reader(lines)) == [
            ["entity_name", "producer_ids_rate", "producer_ids_burst"],
            ["busy", "150.0", "150.0"],
            ["calm", "10.0", "10.0"],
        ]
    assert pid_quota("quotas", "--tables", tables, "--import", file)[0] == 0
    assert [row["quota_now"] for row in suggest(pid_quota, tables)] == [150.0, 10.0]


def test_without_history_it_says_what_to_do(pid_quota: PidQuota, tmp_path: Path) -> None:
    append(tmp_path, "producer_id_metrics", metrics("User:new", NOON, phase="learning"))

    assert "past its learning time" in one_error(pid_quota("quotas", "--suggest", "--tables", tmp_path))
