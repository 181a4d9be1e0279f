"""`pid-quota sql` over real Delta tables: answers, JSON, and everything that it refuses."""

import csv
import io
import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tables.store.path_tables import create_missing, table_path
from tests.kits.command_kit import PidQuota, one_error, printed
from tests.kits.kip_kit import init
from tests.unit.jobs.table_rows import NOON, append, broker_state, decision, metrics


@pytest.fixture
def ask(pid_quota: PidQuota, tmp_path: Path) -> PidQuota:
    return partial(pid_quota, "sql", "--tables", tmp_path)


def test_a_table_for_people(ask: PidQuota, tmp_path: Path) -> None:
    append(tmp_path, "throttle_decisions", decision("User:mallory", NOON, refused_pids=33))
    out = printed(ask("SELECT principal, action, refused_pids, throttle_time_ms FROM throttle_decisions"))
    header, row = out.splitlines()
    assert header.split() == ["principal", "action", "refused_pids", "throttle_time_ms"]
    assert row.split() == ["User:mallory", "THROTTLE", "33", "60000"]


def test_json_holds_every_type_of_the_tables(ask: PidQuota, tmp_path: Path) -> None:
    append(tmp_path, "throttle_decisions", decision("User:ł\x1b", NOON, tokens=float("nan"), quota=float("inf")))
    value = {"value": b"\xff{", "reason": "bad", "topic": "t", "partition": 0, "offset": 2**60}
    append(tmp_path, "quarantined_events", value | {"record_timestamp": None, "batch_id": 0})

    out = printed(ask("--json", 'SELECT * FROM throttle_decisions, (SELECT value, "offset" FROM quarantined_events)'))
    (row,) = json.loads(out)
    assert row["principal"] == "User:ł\x1b"
    assert row["tokens"] is row["quota"] is row["burst"] is None
    assert row["decided_at"] == "2026-01-15T12:00:00+00:00"
    assert (row["sample_pids"], row["client_ids"]) == ([1, 2], {"rdkafka": 1})
    assert (row["value"], row["offset"]) == ("ff7b", 2**60)


def test_csv_keeps_quotes_commas_and_nothing(ask: PidQuota, tmp_path: Path) -> None:
    append(tmp_path, "throttle_decisions", decision('User:a,"b"', NOON))
    out = printed(ask("--csv", "SELECT principal, burst, client_ids FROM throttle_decisions"))
    assert list(csv.reader(io.StringIO(out))) == [
        ["principal", "burst", "client_ids"],
        ['User:a,"b"', "", '{"rdkafka": 1}'],
    ]


def test_two_forms_at_once_are_refused(ask: PidQuota) -> None:
    assert "give one of them" in one_error(ask("--csv", "--json", "SELECT 1"), 2)


def test_show_tables_names_tables_and_views(ask: PidQuota, tmp_path: Path) -> None:
    create_missing(str(tmp_path))
    assert {"producer_id_quotas", "quarantined_events", "current_throttles"} <= set(printed(ask("SHOW TABLES")).split())


def test_the_tables_come_from_the_environment_too(
    pid_quota: PidQuota, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    create_missing(str(tmp_path))
    monkeypatch.setenv("PID_QUOTA_TABLES", str(tmp_path))
    assert pid_quota("sql", "SELECT * FROM throttle_decisions")[0] == 0


def test_only_the_tables_named_have_to_be_there(ask: PidQuota, tmp_path: Path) -> None:
    write_deltalake(table_path(str(tmp_path), "producer_id_quotas"), pa.table({"entity_name": ["a"]}))
    assert ask("SELECT entity_name FROM producer_id_quotas WHERE entity_name <> 'throttle_decisions'")[0] == 0


@pytest.mark.parametrize("relation", ["throttle_decisions", "current_throttles", "top_offenders"])
def test_a_missing_table_is_one_line(ask: PidQuota, relation: str) -> None:
    err = one_error(ask(f"TABLE {relation}"))
    assert err.startswith("error: no table ")


def test_a_folder_that_is_no_delta_table_is_one_line(ask: PidQuota, tmp_path: Path) -> None:
    (tmp_path / "throttle_decisions" / "_delta_log").mkdir(parents=True)
    (tmp_path / "throttle_decisions" / "_delta_log" / f"{0:020}.json").write_text("garbage\n", encoding="utf-8")
    assert "Traceback" not in one_error(ask("SELECT * FROM throttle_decisions"))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM nowhere",
        "SELECT nothing FROM throttle_decisions",
        "SELEC 1",
        "",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP VIEW throttle_decisions",
        "CREATE TABLE t AS SELECT 1",
        "DELETE FROM throttle_decisions",
        "SET enable_external_access = true",
        "INSTALL httpfs",
        "PRAGMA enable_profiling",
    ],
)
def test_what_is_no_answerable_select_is_one_line(ask: PidQuota, tmp_path: Path, sql: str) -> None:
    create_missing(str(tmp_path))
    one_error(ask(sql))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('{secret}')",
        "SELECT * FROM '{secret}'",
        "SELECT content FROM read_text('{secret}')",
        "SELECT * FROM glob('{folder}/*')",
        "COPY (SELECT 1) TO '{folder}/written.csv'",
        "ATTACH '{folder}/written.db'",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{folder}/written.csv'",
        "SELECT * FROM delta_scan('{folder}')",
        "SELECT * FROM sys",
    ],
)
def test_a_query_reaches_no_file_and_no_python_object(ask: PidQuota, tmp_path: Path, sql: str) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("hunter2\n", encoding="utf-8")
    code, out, err = ask(sql.format(secret=secret, folder=tmp_path))
    assert code == 1
    assert "hunter2" not in out + err
    assert not list(tmp_path.glob("written*"))


def test_text_from_strangers_can_t_steer_the_terminal(ask: PidQuota, tmp_path: Path) -> None:
    append(tmp_path, "throttle_decisions", decision("User:\x1b[2J[red]", NOON, client_ids=[("\x1b]0;x\x07", 1)]))
    _, out, _ = ask("SELECT principal, client_ids FROM throttle_decisions")
    assert "\x1b" not in out
    assert "[red]" in out


def test_a_view_is_shown_by_its_name(pid_quota: PidQuota, tmp_path: Path) -> None:
    append(tmp_path, "throttle_decisions", decision("User:m", NOON))
    code, out, _ = pid_quota("sql", "--tables", tmp_path, "--view", "current_throttles", "--json")
    assert code == 0
    assert [row["principal"] for row in json.loads(out)] == ["User:m"]


class TestStale:
    def test_an_empty_view_of_a_silent_stream_is_not_taken_for_calm(self, ask: PidQuota, tmp_path: Path) -> None:
        append(tmp_path, "producer_id_metrics", metrics("User:m", NOON))
        code, out, err = ask("--view", "current_throttles", "--json")
        assert (code, json.loads(out)) == (0, [])
        assert err.startswith("warning: no rows since 2026-01-15 12:00, ")
        assert "\nlook: the log of `pid-quota run`, then pid-quota doctor\n" in err

    def test_a_view_of_a_live_one_is_shown_without_a_word(self, ask: PidQuota, tmp_path: Path) -> None:
        append(tmp_path, "broker_status", broker_state(1, datetime.now(timezone.utc)))
        assert ask("--view", "current_throttles", "--json")[1:] == ("[]\n", "")

    def test_a_select_is_of_the_times_that_it_names(self, ask: PidQuota, tmp_path: Path) -> None:
        append(tmp_path, "producer_id_metrics", metrics("User:m", NOON))
        assert ask("SELECT principal FROM producer_id_metrics", "--json")[2] == ""

    def test_a_reader_of_one_table_gets_it(self, ask: PidQuota, tmp_path: Path) -> None:
        append(tmp_path, "producer_inits", init(NOON, 1))
        broken = tmp_path / "broker_status" / "_delta_log" / f"{0:020}.json"
        broken.write_text("{")
        code, _, err = ask("--view", "recent_inits", "--json")
        assert (code, err) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--view", "throttled"), "there is no view throttled: did you mean 'throttles_per_day'?"),
        (("--view", "xyz"), "there is no view xyz: choose one of broker_coverage, classified_inits, "),
        (("--view", "current_throttles", "SELECT 1"), "give a SELECT or --view"),
        ((), "give a SELECT or --view"),
    ],
)
def test_it_takes_one_query_or_one_view_that_exists(
    pid_quota: PidQuota, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    assert message in one_error(pid_quota("sql", "--tables", tmp_path, *arguments), 2)


def test_a_comment_alone_is_no_query_and_a_mistyped_option_no_comment(ask: PidQuota) -> None:
    assert "expected one SELECT, found none" in ask("-- c")[2]
    assert "No such option: --jsn" in ask("--jsn", "SELECT 1")[2]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "SELECT pricipal FROM throttle_decisions",
            'Referenced column "pricipal" not found in FROM clause! Cand',
        ),
        ("SELECT * FROM trottle_decisions", "trottle_decisions does not exist. Did you mean 'throttle_decisions'?"),
        ("SELECT unix_milli(1)", 'Did you mean "unix_millis"?'),
        ("SELECT * FROM orders", "orders does not exist. Tables and views: producer_id_quotas, "),
    ],
)
def test_a_mistyped_name_gets_similar_names(ask: PidQuota, tmp_path: Path, query: str, message: str) -> None:
    create_missing(str(tmp_path))
    assert message in one_error(ask(query))


def following(monkeypatch: pytest.MonkeyPatch, *steps: Callable[[], object]) -> None:
    """Let a follower find what each step writes, and then end it as Ctrl-C does."""
    left = [*steps]

    def sleep(_seconds: float) -> None:
        if not left:
            raise KeyboardInterrupt
        left.pop(0)()

    monkeypatch.setattr("jobs.tables.sql_command.time", SimpleNamespace(sleep=sleep))


@pytest.mark.parametrize("form", ["--json", "--csv"])
def test_a_followed_table_prints_each_row_once_as_it_comes(
    ask: PidQuota, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    def write(name: str) -> None:
        append(tmp_path, "throttle_decisions", decision(f"User:{name}", NOON))

    write("first")
    following(monkeypatch, lambda: write("second"), lambda: None, lambda: write("third"))

    code, out, _ = ask("SELECT principal FROM throttle_decisions", "--follow", form)

    rows = [json.loads(line)["principal"] for line in out.splitlines()] if form == "--json" else out.splitlines()
    header = [] if form == "--json" else ["principal"]
    assert (code, rows) == (0, [*header, "User:first", "User:second", "User:third"])


def test_a_followed_view_prints_a_row_again_when_it_changes(
    ask: PidQuota, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(tmp_path, "producer_id_metrics", metrics("User:a", NOON), metrics("User:b", NOON))
    more = metrics("User:a", NOON + timedelta(minutes=1))
    following(monkeypatch, lambda: append(tmp_path, "producer_id_metrics", more))

    select = "SELECT principal, count(*) AS n FROM producer_id_metrics GROUP BY principal ORDER BY principal"
    out = ask(select, "-f", "--json")[1]

    assert [tuple(json.loads(line).values()) for line in out.splitlines()] == [
        ("User:a", 1),
        ("User:b", 1),
        ("User:a", 2),
    ]
