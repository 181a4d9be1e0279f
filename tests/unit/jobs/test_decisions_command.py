"""`pid-quota decisions`: one line each, from the end or from a time, each once though the table is compacted."""

import json
import signal
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tables.store.path_tables import create_missing, table_path
from tests.kits.command_kit import PidQuota, one_error, printed
from tests.kits.following_kit import Following
from tests.kits.kip_kit import deploys, now
from tests.unit.jobs.table_rows import append, broker_state, confirmed, decision, hold_fact, metrics, seconds

NAME, COLUMN = "throttle_decisions", "decided_at"


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


@pytest.fixture
def tables(tmp_path: Path) -> str:
    append(tmp_path, NAME, decision("User:old", now() - minutes(90)), decision("User:mallory", now() - minutes(5)))
    return str(tmp_path)


def compact(tables: str) -> None:
    table = DeltaTable(table_path(tables, NAME))
    assert table.optimize.compact()["numFilesRemoved"] > 1


def test_without_following_it_shows_those_since_a_time_and_ends(pid_quota: PidQuota, tables: str) -> None:
    out = printed(pid_quota("decisions", "--tables", tables))
    until = now() - minutes(5) + seconds(60)
    assert out == (
        f"{now() - minutes(5):%Y-%m-%d %H:%M:%SZ}  THROTTLE  User:mallory  until {until:%Y-%m-%d %H:%M:%SZ}  "
        "1 PID refused  quota 60 (default)  clients: rdkafka 1  addresses: 10.0.0.7 1\n"
    )

    every = pid_quota("decisions", "--tables", tables, "--since", "2h", "--json")[1]
    assert [json.loads(line)["principal"] for line in every.splitlines()] == ["User:old", "User:mallory"]
    assert pid_quota("decisions", "--tables", tables, "--since", "2h", "--principal", "old")[1].count("\n") == 1
    assert pid_quota("decisions", "--tables", tables, "--since", "2h", "--principal", "User:ol")[1] == ""


def test_a_throttle_in_force_says_whether_brokers_hold_it(pid_quota: PidQuota, tmp_path: Path) -> None:
    until = now() + minutes(10)
    rows = [decision(f"User:{name}", now() - minutes(5), throttled_until=until) for name in ("m", "n")]
    append(tmp_path, NAME, decision("User:m", now() - minutes(6), throttled_until=until), *rows)
    append(tmp_path, "broker_status", broker_state(1, now()))
    append(
        tmp_path, "holds", confirmed(1, now(), until=until), hold_fact("left_out", now(), "User:n", reason="--never")
    )

    renewed, first, other = pid_quota("decisions", "--tables", tmp_path, "--since", "1h")[1].splitlines()[::-1]
    found = [json.loads(line) for line in pid_quota("decisions", "--tables", tmp_path, "--json")[1].splitlines()]

    lines = {line.split("  ")[2]: line for line in (first, renewed)}
    assert "confirmed by 1 of 1 broker" in lines["User:m"]
    assert lines["User:n"].endswith("not held: --never")
    assert "hold" not in other
    assert sorted(str(row["hold"]) for row in found) == ["None", "held", "left out"]


def test_where_nothing_is_to_show_it_says_so_and_whether_the_stream_writes(pid_quota: PidQuota, tmp_path: Path) -> None:
    create_missing(str(tmp_path))
    command = ("decisions", "--tables", tmp_path, "--since", "2026-01-15T11:00Z", "--principal", "bob")
    none = "no decisions on User:bob since 2026-01-15 11:00:00Z"
    assert pid_quota(*command) == (0, "", f"{none}; no rows of the stream at all: does it run?\n")

    before = datetime(2026, 1, 15, 10, 30, tzinfo=timezone.utc)
    append(tmp_path, "producer_id_metrics", metrics("User:bob", before))
    assert pid_quota(*command) == (0, "", f"{none}; no rows of the stream since 2026-01-15 10:30:00Z: does it run?\n")

    append(tmp_path, "producer_id_metrics", metrics("User:bob", before + minutes(40)))
    assert pid_quota(*command) == (0, "", f"{none}\n")


def test_it_follows_from_the_end_as_one_line_of_json_each_and_ends_by_ctrl_c(tables: str) -> None:
    with Following(
        "decisions", "--tables", tables, "--follow", "--json", "--since", "10m", "--seconds", "0.1"
    ) as shown:
        shown.wait_for(1)
        append(tables, NAME, decision("User:bob", now()))
        shown.wait_for(2)
        append(tables, NAME, decision("User:bob", now(), action="RELEASE"))
        lines = shown.wait_for(3)

        assert shown.end() == (0, "")

    found = [json.loads(line) for line in lines]
    assert [(row["principal"], row["action"]) for row in found] == [
        *(("User:mallory", "THROTTLE"), ("User:bob", "THROTTLE"), ("User:bob", "RELEASE")),
    ]
    assert found[1]["decided_at"] == now().isoformat()


def test_a_stop_by_the_system_is_as_quiet(tables: str) -> None:
    with Following("decisions", "--tables", tables, "--follow", "--since", "10m") as shown:
        shown.wait_for(1)
        assert shown.end(signal.SIGTERM) == (0, "")


def test_a_name_can_not_steer_the_terminal(pid_quota: PidQuota, tmp_path: Path) -> None:
    append(tmp_path, NAME, decision("User:\x1b[2J\nUser:b", now()))
    out = pid_quota("decisions", "--tables", tmp_path)[1]
    assert "User:\\x1b[2J\\nUser:b" in out
    assert out.count("\n") == 1


def test_a_throttle_says_what_its_clients_look_like_now_but_not_one_of_hours_ago(
    pid_quota: PidQuota, tmp_path: Path
) -> None:
    old, new = decision("User:pods", now() - minutes(90)), decision("User:pods", now() - minutes(2))
    append(tmp_path, NAME, old, new, decision("User:pods", now() - minutes(1), action="RELEASE"))
    append(tmp_path, "producer_inits", *deploys("User:pods", now() - minutes(2)))
    cause = "likely deploy, else leak, scale-out, restart loop or producer per message/batch"

    command = ("decisions", "--tables", tmp_path, "--since", "2h")
    shown = pid_quota(*command)[1].splitlines()
    result = pid_quota(*command, "--json")[1].splitlines()

    assert [f"looks like: {cause}" in line for line in shown] == [False, True, False]
    assert [json.loads(line)["looks_like"] for line in result] == [None, cause, None]


@pytest.mark.parametrize("since", ["yesterday", "99999999999d"])
def test_no_time_is_one_line(pid_quota: PidQuota, tables: str, since: str) -> None:
    assert f"'{since}' is not a time" in one_error(pid_quota("decisions", "--tables", tables, "--since", since), 2)


def test_each_decision_comes_once_though_it_is_written_again_by_a_compaction(tables: str) -> None:
    command = ("decisions", "--tables", tables, "--follow", "--json", "--since", "10m", "--seconds", "0.1")
    with Following(*command) as shown:
        shown.wait_for(1)
        append(tables, NAME, decision("User:a", now()))
        shown.wait_for(2)
        compact(tables)
        append(tables, NAME, decision("User:b", now()))
        lines = shown.wait_for(3)
    assert [json.loads(line)["principal"] for line in lines] == ["User:mallory", "User:a", "User:b"]
