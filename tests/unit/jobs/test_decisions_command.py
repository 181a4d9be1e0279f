"""`pid-quota decisions`: one line each, from the end or from a time, each once though the table is compacted."""

import json
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from datetime import datetime, timedelta, timezone
from pathlib import Path
from unittest.mock import Mock

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from tables.errors import TableError
from tables.store import engines
from tables.store.open import open_store
from tables.store.path_tables import create_missing, table_path
from tables.store.values import Answer, Row
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


@contextmanager
def following(tables: str, since: datetime | None = None) -> Iterator[Callable[[], list[Row]]]:
    with open_store(tables) as store:
        followed = store.follow(NAME)
        if since is None:
            assert followed.new_rows(COLUMN, None) == []
        yield lambda: followed.new_rows(COLUMN, since)


class TestNewRows:
    def test_each_row_comes_once_though_it_is_written_again_by_a_compaction(self, tables: str) -> None:
        with following(tables) as read:
            assert read() == []
            append(tables, NAME, decision("User:a", now()), decision("User:late", now() - timedelta(days=9)))
            assert [row["principal"] for row in read()] == ["User:late", "User:a"]
            compact(tables)
            append(tables, NAME, decision("User:b", now()))
            assert [row["principal"] for row in read()] == ["User:b"]
            assert read() == []

    def test_only_new_files_are_read(self, tables: str) -> None:
        with following(tables) as read:
            for file in Path(table_path(tables, NAME)).glob("*.parquet"):
                # Given that what was there can't be read any more.
                file.unlink()
            append(tables, NAME, decision("User:a", now()))
            assert [row["principal"] for row in read()] == ["User:a"]

    def test_what_could_not_be_read_comes_with_the_next_read(self, tables: str, tmp_path: Path) -> None:
        with following(tables) as read:
            before = set(Path(table_path(tables, NAME)).glob("*.parquet"))
            append(tables, NAME, decision("User:a", now()))
            (file,) = set(Path(table_path(tables, NAME)).glob("*.parquet")) - before
            away = file.rename(tmp_path / "away")
            with pytest.raises(TableError, match="can't read table throttle_decisions"):
                read()
            away.rename(file)
            assert [row["principal"] for row in read()] == ["User:a"]

    def test_a_log_that_was_cleaned_up_is_read_anew(self, tables: str, monkeypatch: pytest.MonkeyPatch) -> None:
        with following(tables) as read:
            append(tables, NAME, decision("User:a", now()))
            monkeypatch.setattr(DeltaTable, "update_incremental", Mock(side_effect=DeltaError("no such version")))
            assert [row["principal"] for row in read()] == ["User:a"]

    def test_an_empty_table_is_followed_from_its_first_row(self, tmp_path: Path) -> None:
        create_missing(str(tmp_path))
        with following(str(tmp_path), datetime(2026, 1, 1, tzinfo=timezone.utc)) as read:
            assert read() == []
            append(tmp_path, NAME, decision("User:a", now()))
            assert len(read()) == 1


class Warehouse:
    """Stands in for a catalog that holds the table."""

    def __init__(self, *rows: tuple[datetime, str]) -> None:
        self.rows, self.since = list(rows), list[datetime]()

    def execute(self, statement: str, parameters: Mapping[str, datetime] | None = None) -> Answer:
        if statement.startswith("SELECT max("):
            return Answer(("newest",), ((max((at for at, _ in self.rows), default=None),),))
        self.since.append((parameters or {})["since"])
        return Answer((COLUMN, "principal"), tuple(row for row in self.rows if row[0] >= self.since[-1]))


class TestNewRowsOfACatalog:
    @pytest.fixture
    def warehouse(self, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
        warehouse = Warehouse()
        monkeypatch.setattr(engines, "engine", lambda _: nullcontext(warehouse))
        return warehouse

    def test_from_the_end_each_row_comes_once_by_a_query_of_the_newest(self, warehouse: Warehouse) -> None:
        warehouse.rows = [(now() - minutes(9), "User:old"), (now(), "User:a")]
        with following("prod.quota") as read:
            warehouse.rows += [(now(), "User:b"), (now() + minutes(1), "User:c")]
            assert [row["principal"] for row in read()] == ["User:b", "User:c"]
            warehouse.rows.append((now() + minutes(2), "User:d"))
            assert [row["principal"] for row in read()] == ["User:d"]
        assert warehouse.since == [now(), now(), now() + minutes(1)]

    def test_an_empty_table_is_followed_from_its_first_row(self, warehouse: Warehouse) -> None:
        with following("prod.quota") as read:
            assert read() == []
            warehouse.rows = [(now(), "User:a"), (now() + minutes(1), "User:b")]
            assert [row["principal"] for row in read()] == ["User:a", "User:b"]
