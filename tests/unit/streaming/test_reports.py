"""The query of the plugins' reports, without Spark."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock, call

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from streaming.checkpoint.next_producer_id import load_next_producer_id
from streaming.commit.pending_rows import PendingRows
from streaming.errors import WindowTooShortError
from streaming.reports.broker_watch import FRESH_MS, SILENT_MS, BrokerWatch, Dated, require_long_window
from streaming.reports.hold_rows import DatedReport, Row
from streaming.reports.report_query import TABLES, CommitReports
from streaming.reports.report_rows import KnownBlocks, ReportParser, TopicRecord
from tables.store.path_tables import create_missing, open_table
from wire.holds import Hold, hold_key
from wire.plugin_reports import (
    AliveReport,
    BlockReport,
    HeldPrincipal,
    HoldReport,
    InitReport,
    PluginReport,
    PluginState,
    StopReport,
)

NOW_MS = 1_790_000_000_000
WINDOW_MS = 3_600_000
OURS = "our cluster"


def common(broker_id: int = 1, at_ms: int = 0, **fields: Any) -> dict[str, Any]:
    return {"timestamp_ms": NOW_MS + at_ms, "broker_id": broker_id, "cluster_id": OURS, **fields}


def state(broker_id: int = 1, at_ms: int = 0, kind: type[PluginState] = AliveReport, **fields: Any) -> PluginState:
    usual = {"run": "f" * 16, "plugin_version": "1", "kafka_version": "4.3.1", "repeat_ms": 10_000}
    return kind(**common(broker_id, at_ms, **usual | {"window_ms": WINDOW_MS} | fields))


def init(at_ms: int = 0, **fields: Any) -> InitReport:
    return InitReport(**common(1, at_ms, principal="User:alice", address="10.0.0.7", error="NONE", **fields))


def block(first: int, broker_id: int = 1, at_ms: int = 0, **fields: Any) -> BlockReport:
    return BlockReport(
        **common(broker_id, at_ms, **{"broker_epoch": 7, "first_producer_id": first, "length": 1000} | fields)
    )


def dated(*states: PluginState) -> list[Dated]:
    return [Dated(each, each.timestamp_ms) for each in states]


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


class TestBrokerWatch:
    def test_the_newest_state_of_each_broker_becomes_a_row(self) -> None:
        newest = state(1, 7, StopReport, events=4, next_producer_id=5000)

        rows = BrokerWatch(WINDOW_MS).see(dated(state(1, 5), newest, state(2, 6, problem="no right to write")))

        named = ("broker_id", "reported_at", "events", "next_producer_id", "problem", "stopped")
        assert [tuple(row[name] for name in named) for row in rows] == [
            (1, NOW_MS + 7, 4, 5000, None, True),
            (2, NOW_MS + 6, 0, None, "no right to write", False),
        ]

    def test_a_broker_of_the_cluster_whose_plugin_does_not_report_is_named_as_it_was_last_seen(self) -> None:
        watch = BrokerWatch(WINDOW_MS)
        cluster: dict[str, Any] = {"cluster_brokers": [1, 2, 9]}
        begin = [state(1, **cluster), state(2, **cluster)]
        later = [state(1, SILENT_MS, **cluster), state(2, SILENT_MS - 7, cluster_brokers=[9])]

        assert [row["broker_id"] for row in watch.see(dated(*begin))] == [1, 2]
        *_, unseen = watch.see(dated(*later))

        assert unseen == {"broker_id": 9, "seen_at": NOW_MS + SILENT_MS}

    def test_a_batch_without_a_report_of_a_broker_that_reported_moments_ago_names_it_not(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        watch = BrokerWatch(WINDOW_MS)
        watch.see(dated(state(1), state(2, SILENT_MS + 9)))

        rows = watch.see(dated(state(1, 2 * SILENT_MS, cluster_brokers=[1, 2])))

        assert ([row["broker_id"] for row in rows], messages(caplog)) == ([1], [])

    def test_a_broker_that_is_not_seen_is_logged_once_with_the_reason_and_again_when_it_is_seen(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        watch = BrokerWatch(WINDOW_MS)
        blind: dict[str, Any] = {"problem": "Kafka 9.9.9 is not known", "cluster_brokers": [1, 2, 3]}
        for at_ms in (0, SILENT_MS, SILENT_MS + 10):
            watch.see(dated(state(1, at_ms), state(2, at_ms, **blind)))
        watch.see(dated(*(state(broker_id, 2 * SILENT_MS, cluster_brokers=[1, 2, 3]) for broker_id in (1, 2, 3))))

        said = messages(caplog)
        assert [text.partition(",")[0] for text in said] == [
            *("no plugin sees broker 2", "no plugin sees broker 3"),
            *("a plugin sees broker 2 again", "a plugin sees broker 3 again"),
        ]
        assert "Kafka 9.9.9 is not known" in said[0]
        assert "no plugin of it reports" in said[1]

    def test_a_broker_that_is_not_seen_for_another_reason_is_logged_again(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        watch = BrokerWatch(WINDOW_MS)
        for each in (state(problem="no memory"), state(1, 5, StopReport, problem="no memory"), state(1, 6, StopReport)):
            watch.see(dated(each))

        assert [("no memory" in text, "its plugin stopped" in text) for text in messages(caplog)] == [
            (True, False),
            (False, True),
        ]

    def test_the_next_producer_id_is_the_highest_of_the_newest_states(self) -> None:
        watch = BrokerWatch(WINDOW_MS)
        assert watch.next_producer_id() is None

        watch.see(dated(state(1, 0, next_producer_id=9000), state(2, 0, next_producer_id=7000), state(3)))
        watch.see(dated(state(1, 5, next_producer_id=8000)))

        assert watch.next_producer_id() == 8000

    def test_another_window_is_logged_once(self, caplog: pytest.LogCaptureFixture) -> None:
        watch = BrokerWatch(WINDOW_MS)
        for at_ms in range(3):
            watch.see(dated(state(1, at_ms), state(2, at_ms, window_ms=7_200_000)))
            watch.check_settings(NOW_MS + 10)

        (said,) = messages(caplog)
        assert "broker 2 has a window of 7200 s, but this stream's window is 3600 s" in said
        assert "pid.quota.window.ms=3600000" in said

    @pytest.mark.parametrize(("now_ms", "is_refused"), [(FRESH_MS - 1, True), (FRESH_MS, False)])
    def test_a_slow_repeat_ends_the_stream_unless_the_report_is_old(self, now_ms: int, is_refused: bool) -> None:
        watch = BrokerWatch(WINDOW_MS)
        watch.see(dated(state(1), state(2, repeat_ms=360_001)))

        if is_refused:
            with pytest.raises(WindowTooShortError, match=r"window is 3600 s, but the plugin of broker 2 .*360\.001 s"):
                watch.check_settings(NOW_MS + now_ms)
        else:
            watch.check_settings(NOW_MS + now_ms)

    def test_a_window_of_ten_repeats_is_long_enough(self) -> None:
        require_long_window([state(repeat_ms=6_000), state(2, repeat_ms=1)], 60_000)
        require_long_window([], 1)

        with pytest.raises(WindowTooShortError, match=r"pid\.quota\.repeat\.ms=5999"):
            require_long_window([state(repeat_ms=6_000)], 59_999)


def reported(value: bytes | None, appended_ms: int = 0) -> TopicRecord:
    return TopicRecord(is_hold=False, key=None, value=value, appended_ms=appended_ms)


def a_hold(cluster_id: str = OURS) -> bytes:
    return msgspec.json.encode(Hold(cluster_id=cluster_id, hold_ms=60_000, until_ms=0, writer="s"))


def of_holds(key: bytes | None, value: bytes | None) -> TopicRecord:
    return TopicRecord(is_hold=True, key=key, value=value, appended_ms=9)


def hold_report(at_ms: int = 0, **fields: Any) -> HoldReport:
    held = HeldPrincipal(principal="User:m", since_ms=NOW_MS, ends_ms=NOW_MS + 60_000, **fields)
    return HoldReport(**common(1, at_ms), held=[held])


class TestReportParser:
    def test_reports_are_sorted_by_kind_and_keep_their_order(self) -> None:
        states, inits, blocks = [state(), state(2)], [init(1), init(2)], [block(0)]
        reports = (states[0], inits[0], blocks[0], hold_report(), inits[1], states[1])

        parsed = ReportParser(OURS).parse(reported(msgspec.json.encode(each), 9) for each in reports)

        assert parsed.states == [Dated(each, 9) for each in states]
        assert (parsed.blocks, parsed.inits) == (blocks, inits)
        assert parsed.holds == [DatedReport(hold_report(), 9)]

    def test_records_of_holds_are_told_from_reports_by_their_topic(self) -> None:
        records = [of_holds(b"User:m", a_hold()), of_holds(b"User:m", None), reported(a_hold())]

        parsed = ReportParser(OURS).parse(records)

        assert [(each.record.principal, each.appended_ms) for each in parsed.hold_records] == [("User:m", 9)] * 2
        assert [each.record.content is None for each in parsed.hold_records] == [False, True]

    def test_holds_of_others_are_ignored_and_logged_once(self, caplog: pytest.LogCaptureFixture) -> None:
        parser = ReportParser(OURS)
        for _ in range(3):
            parsed = parser.parse(
                [of_holds(b"User:m", a_hold("another")), of_holds(None, b"{}"), of_holds(b"User:m", b"text")]
            )

        assert parsed.hold_records == []
        assert messages(caplog) == [
            f"holds of cluster another in pid-quota-holds are ignored: this stream reads cluster {OURS}",
            "some records of pid-quota-holds are no holds: they are ignored",
        ]

    def test_other_records_are_ignored_and_each_kind_is_logged_once(self, caplog: pytest.LogCaptureFixture) -> None:
        parser = ReportParser(OURS)
        mirrored = msgspec.json.encode(msgspec.structs.replace(state(), cluster_id="another"))
        for _ in range(3):
            parsed = parser.parse(map(reported, (b"text", None, mirrored, b'{"type":"hold"}')))

        assert (parsed.states, parsed.blocks, parsed.inits) == ([], [], [])
        assert [text.partition(" in ")[0] for text in messages(caplog)] == [
            "some records of pid-quota-reports are no reports: they are ignored",
            "reports of cluster another",
        ]

    def test_a_flood_of_clusters_does_not_flood_the_log(self, caplog: pytest.LogCaptureFixture) -> None:
        parser = ReportParser(OURS)
        for number in range(100):
            other = msgspec.structs.replace(state(), cluster_id=f"{number}" * 1000)
            parser.parse([reported(msgspec.json.encode(other))])

        assert len(messages(caplog)) == 10
        assert max(map(len, messages(caplog))) < 200


@pytest.fixture
def tables(tmp_path: Path) -> str:
    folder = str(tmp_path / "tables")
    create_missing(folder)
    return folder


@pytest.fixture
def commit(tmp_path: Path, tables: str) -> CommitReports:
    """The function of a query with two batches, on tables in a folder."""
    folder = tmp_path / "reports"
    (folder / "offsets").mkdir(parents=True)
    (folder / "metadata").write_text('{"id": "query"}')
    for batch_id in range(3):
        (folder / "offsets" / str(batch_id)).write_text(f'v1\n{{}}\n{{"pid-quota-reports":{{"0":{batch_id}}}}}')
    return new_commit(tmp_path, tables)


def new_commit(
    checkpoint: Path,
    tables: str,
    observer: Mock | None = None,
    notes: PendingRows | None = None,
    first_new_batch: int = 0,
) -> CommitReports:
    watch, known = BrokerWatch(WINDOW_MS), KnownBlocks(tables)
    own = (ReportParser(OURS), watch, known, observer, notes, first_new_batch)
    return CommitReports(tables, "deltalake", "s", str(checkpoint), *own)


def frame(*reports: PluginReport | bytes, holds: Sequence[tuple[bytes, bytes | None]] = ()) -> DataFrame:
    values = [each if isinstance(each, bytes) else msgspec.json.encode(each) for each in reports]
    columns = {
        "is_hold": pa.array([False] * len(values) + [True] * len(holds), pa.bool_()),
        "key": pa.array([None] * len(values) + [key for key, _ in holds], pa.binary()),
        "value": pa.array(values + [value for _, value in holds], pa.binary()),
        "appended_ms": pa.array([NOW_MS] * (len(values) + len(holds)), pa.int64()),
    }
    selected = Mock(toArrow=lambda: pa.table(columns))
    return Mock(DataFrame, selectExpr=lambda *_: selected, sparkSession=Mock(SparkSession))


def rows(tables: str, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = open_table(tables, table).to_pyarrow_table().to_pylist()
    return found


def test_reports_become_rows_of_their_tables(commit: CommitReports, tables: str) -> None:
    full = {"client_id": "app", "transactional_id": "pay", "result_producer_id": 70, "result_producer_epoch": 1}
    commit(frame(state(next_producer_id=5000), init(), init(5, **full), block(4000), b"text"), 0)

    (status,), (a_block,), inits, _ = (rows(tables, table) for table in TABLES)
    assert (status["broker_id"], status["next_producer_id"], status["batch_id"]) == (1, 5000, 0)
    assert (a_block["first_producer_id"], a_block["length"], a_block["broker_epoch"]) == (4000, 1000, 7)
    first, second = sorted(inits, key=lambda row: row["answered_at"])
    assert (first["client_id"], first["transactional_id"], first["result_producer_id"]) == ("", None, -1)
    assert (first["principal"], first["client_host"], first["error"]) == ("User:alice", "10.0.0.7", "NONE")
    assert (second["transactional_id"], second["result_producer_epoch"]) == ("pay", 1)


def test_a_batch_that_is_run_again_is_written_once(
    tmp_path: Path, commit: CommitReports, tables: str, caplog: pytest.LogCaptureFixture
) -> None:
    reports = frame(state(), init(), block(4000), block(5000), hold_report(), holds=[(hold_key("User:m"), a_hold())])
    for each in (commit, commit, new_commit(tmp_path, tables)):
        each(reports, 0)

    assert [len(rows(tables, table)) for table in TABLES] == [1, 2, 1, 2]


def test_a_block_that_is_reported_again_is_written_once_and_as_it_was_first_reported(
    tmp_path: Path, commit: CommitReports, tables: str
) -> None:
    commit(frame(block(4000), block(4000, at_ms=9), block(5000)), 0)
    commit(frame(block(5000, broker_id=2), block(6000)), 1)
    new_commit(tmp_path, tables)(frame(block(4000), block(6000), block(7000)), 2)

    found = sorted((row["first_producer_id"], row["broker_id"], row["batch_id"]) for row in rows(tables, "pid_blocks"))
    assert found == [(4000, 1, 0), (5000, 1, 0), (6000, 1, 1), (7000, 1, 2)]


def test_a_block_whose_append_failed_is_written_by_the_next_attempt(
    commit: CommitReports, tables: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streaming.reports.report_query.open_sink", Mock(side_effect=OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        commit(frame(block(4000)), 0)
    monkeypatch.undo()

    commit(frame(block(4000)), 0)

    assert [row["first_producer_id"] for row in rows(tables, "pid_blocks")] == [4000]


class Notes:
    """The stream's plan: rows of principals that it would hold."""

    def __init__(self, *principals: str) -> None:
        self.rows: list[Row] = [
            {"recorded_at": NOW_MS, "state": "would_hold", "principal": each, "until": NOW_MS + 60_000}
            for each in principals
        ]

    def pending(self) -> list[Row]:
        return list(self.rows)

    def written(self, count: int) -> None:
        self.rows = self.rows[count:]


def test_rows_of_the_plan_are_written_once(tmp_path: Path, commit: CommitReports) -> None:
    notes = Notes("User:m", "User:n")
    with_notes = new_commit(tmp_path, commit.tables, notes=notes)
    with_notes(frame(state()), 0)
    with_notes(frame(state()), 1)

    assert notes.rows == []
    assert [(row["principal"], row["state"]) for row in rows(commit.tables, "holds")] == [
        ("User:m", "would_hold"),
        ("User:n", "would_hold"),
    ]


def test_rows_of_the_plan_wait_if_the_table_has_the_batch_or_can_not_be_written(
    tmp_path: Path, commit: CommitReports, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a stream that ended after its first batch was written, and before Spark knew.
    commit(frame(state(), hold_report()), 0)
    notes = Notes("User:m")
    again = new_commit(tmp_path, commit.tables, notes=notes, first_new_batch=1)
    again(frame(state(), hold_report()), 0)
    assert len(notes.rows) == 1
    with monkeypatch.context() as patched:
        patched.setattr("streaming.reports.report_query.open_sink", Mock(side_effect=OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            again(frame(state()), 1)
    assert len(notes.rows) == 1

    again(frame(state()), 1)

    assert notes.rows == []
    assert sorted(row["state"] for row in rows(commit.tables, "holds")) == ["in_force", "would_hold"]


def test_the_stream_learns_the_next_producer_id_and_a_watch_the_states(tmp_path: Path, commit: CommitReports) -> None:
    observer = Mock()
    new_commit(tmp_path, commit.tables, observer)(frame(state(next_producer_id=5000), init()), 0)

    assert load_next_producer_id(str(tmp_path)) == 5000
    assert observer.call_args_list == [call([state(next_producer_id=5000)])]


def test_a_short_window_ends_the_query_after_its_rows_are_written(
    commit: CommitReports, tables: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streaming.reports.report_query.time", Mock(time_ns=lambda: NOW_MS * 1_000_000))
    with pytest.raises(WindowTooShortError):
        commit(frame(state(repeat_ms=400_000)), 0)

    assert [row["repeat_ms"] for row in rows(tables, "broker_status")] == [400_000]
