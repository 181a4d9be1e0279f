"""The parts of the demo, each without a broker."""

import io
import re
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from rich.console import Console

from jobs.demo.clients import Clients, Traffic
from jobs.demo.command import linger
from jobs.demo.demo_console import DemoConsole
from jobs.demo.demo_run import Result
from jobs.demo.demo_view import DemoView, PrincipalRow, read_principals
from jobs.demo.processes import MARKER, Child, prepare_folder
from jobs.demo.story import DECISIONS, decisions_table, story
from jobs.demo.watching import Slowing
from jobs.errors import JobError
from jobs.stream.stream_progress import StreamProgress
from tables.query.sql_query import query
from tables.store.path_tables import create_missing
from tests.unit.jobs.table_rows import NOON, append, decision, metrics


class TestFolder:
    def test_a_new_folder_is_made_and_marked(self, tmp_path: Path) -> None:
        prepare_folder(tmp_path / "a" / "b")
        assert (tmp_path / "a" / "b" / MARKER).is_file()

    def test_a_folder_of_an_earlier_demo_is_replaced(self, tmp_path: Path) -> None:
        prepare_folder(tmp_path / "demo")
        (tmp_path / "demo" / "old").touch()
        prepare_folder(tmp_path / "demo")
        assert [file.name for file in (tmp_path / "demo").iterdir()] == [MARKER]

    def test_a_folder_of_somebody_else_stays_as_it_is(self, tmp_path: Path) -> None:
        (tmp_path / "thesis").touch()
        with pytest.raises(JobError, match="--tables"):
            prepare_folder(tmp_path)
        assert [file.name for file in tmp_path.iterdir()] == ["thesis"]

    def test_a_file_in_the_way_is_one_line(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(JobError, match="not writable"):
            prepare_folder(tmp_path / "file")


class TestChild:
    def test_it_runs_until_the_context_ends(self, tmp_path: Path) -> None:
        child = Child("sleeper", ["-c", "import time; time.sleep(600)"], tmp_path / "log")
        with child:
            child.require_alive()

    def test_one_that_ended_is_quoted_in_one_line(self, tmp_path: Path) -> None:
        ended = threading.Event()
        with Child("stream", ["-c", "print('first\\nno broker'); raise SystemExit(3)"], tmp_path / "log") as child:
            message = ""
            while not message:
                try:
                    child.require_alive()
                except JobError as error:
                    message = str(error)
                ended.wait(0.02)
        assert "stream ended with exit code 3: first no broker" in message
        assert str(tmp_path / "log") in message

    def test_one_that_does_not_listen_is_killed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("jobs.demo.processes._STOP_S", 0.1)
        ignore = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True)"
        with Child("deaf", ["-c", f"{ignore}; time.sleep(600)"], tmp_path / "log"):
            while "deaf" not in (tmp_path / "log").read_text(encoding="utf-8"):
                threading.Event().wait(0.02)


class TestStreamProgress:
    @pytest.fixture
    def checkpoint(self, tmp_path: Path) -> Path:
        for folder in ("offsets", "commits"):
            (tmp_path / folder).mkdir()
        return tmp_path

    def offsets(self, checkpoint: Path, batch: int, text: str) -> None:
        (checkpoint / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{text}", encoding="utf-8")

    def test_before_the_first_batch_nothing_is_committed(self, checkpoint: Path) -> None:
        self.offsets(checkpoint, 0, '{"events":{"0":5}}')
        assert StreamProgress(checkpoint, {}, "events").committed() is None

    def test_the_last_finished_batch_counts_by_number(self, checkpoint: Path) -> None:
        for batch in (2, 9, 10, 11):
            self.offsets(checkpoint, batch, f'{{"events":{{"0":{batch},"1":0}}}}')
        for file in ("2", "9", "10", ".11.crc"):
            (checkpoint / "commits" / file).touch()
        assert StreamProgress(checkpoint, {}, "events").committed() == {0: 10, 1: 0}


class TestResult:
    ALICE = PrincipalRow("User:alice", 3, 17.0, 0, 3, 0, None)
    GOOD = Result(
        [ALICE], frozenset({"User:mallory"}), Traffic(3, 600), Traffic(116, 110, 6), 60.0, 9.0, Slowing(20.0, 100), True
    )

    def test_mallory_throttled_and_alice_not_is_as_expected(self) -> None:
        assert self.GOOD.as_expected

    @pytest.mark.parametrize(
        "change",
        [
            {"throttled": frozenset()},
            {"throttled": frozenset({"User:alice"})},
            {"throttled": frozenset({"User:alice", "User:mallory"})},
            {"principals": []},
        ],
    )
    def test_anything_else_is_not(self, change: dict[str, Any]) -> None:
        assert not replace(self.GOOD, **change).as_expected


class TestStory:
    def test_it_says_who_what_it_cost_and_what_was_done(self) -> None:
        who, cost, done = story(TestResult.GOOD, 20)
        assert "mallory made 116 producers for 110 messages, alice 3 for 600" in who
        assert "5.0 a second, that comes to 432,000 of them and 132 MB" in cost
        assert "over the quota of 20 an hour, and a hold on the broker left her 0.2 new producer ids a second" in done

    def test_a_hold_that_came_too_late_is_reported(self) -> None:
        *_, done = story(replace(TestResult.GOOD, slowing=None), 20)
        assert "the traffic ended before the broker held her" in done

    def test_no_two_decisions_look_alike(self, tmp_path: Path) -> None:
        create_missing(str(tmp_path))
        at = (NOON, NOON.replace(minute=1), NOON.replace(minute=2), NOON.replace(minute=3))
        actions = ("THROTTLE", "THROTTLE", "RELEASE", "THROTTLE")
        rows = [decision("User:m", time, action=action) for time, action in zip(at, actions, strict=True)]
        append(tmp_path, "throttle_decisions", *rows)
        table = decisions_table(query(str(tmp_path), DECISIONS, NOON))
        console = Console(width=120, file=io.StringIO())
        with console.capture() as shown:
            console.print(table)
        lines = shown.get().splitlines()[-4:]
        kinds = [re.search(r"User:m +(\D+?) {2,}", line) for line in lines]
        assert [kind and kind[1] for kind in kinds] == ["throttle", "throttle renewed", "release", "throttle"]
        assert len({line.split()[0] for line in lines}) == 4


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_console_stays_until_a_signal_ends_it_in_good_order(
    signals_as_before: None, number: signal.Signals
) -> None:
    printed = []

    class View:
        def stage(self, text: str) -> None:
            printed.append(text)
            signal.raise_signal(number)

    # As the demo leaves them when it has stopped its processes.
    signal.signal(number, signal.SIG_IGN)
    linger(cast("DemoView", View()), DemoConsole("./demo-data"))
    assert "Ctrl-C ends it" in printed[0]


class TestConsole:
    def test_it_answers_over_tables_that_are_empty_and_is_gone_afterwards(self, tmp_path: Path) -> None:
        create_missing(str(tmp_path))
        with DemoConsole(str(tmp_path), port=0) as console:
            console.open()
            assert console.page_of("User:mallory").startswith(console.address)
            api = f"{console.address}api/"
            page = httpx2.get(f"{api}principal", params={"name": "User:mallory", "hours": "0.1"}).json()
            assert (page["missing"], page["timeline"]["at_ms"]) == ({}, [])
            # Often enough to see a line grow.
            assert page["refresh_ms"] <= 3000
            assert httpx2.get(f"{api}overview").json()["throttled"] == []
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(api)

    def test_a_port_that_is_taken_gives_way_to_a_free_one(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with DemoConsole(str(tmp_path), port) as console:
                console.open()
                assert f":{port}/" not in console.address
                assert httpx2.get(console.address).status_code == 200


def test_delivery_errors_are_counted_and_crash_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.demo.clients._FLUSH_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        nobody = {"bootstrap.servers": f"127.0.0.1:{mute.getsockname()[1]}", "message.timeout.ms": "200"}
        with Clients(nobody, nobody) as clients:
            while not clients.mallory.failed:
                threading.Event().wait(0.02)
    assert clients.alice.delivered == clients.mallory.delivered == 0
    assert clients.alice.producers == 3


class TestView:
    @pytest.fixture
    def clock(self) -> Callable[[], float]:
        return iter(range(0, 10_000, 2)).__next__

    def shown(self, terminal: bool, clock: Callable[[], float]) -> str:
        text = io.StringIO()
        console = Console(file=text, force_terminal=terminal, width=120, color_system=None)
        rows = [PrincipalRow("User:mallory\x1b[2J", 21, -0.78, 140_000, 21, 33, NOON)]
        with DemoView(console, clock) as view:
            view.stage("traffic")
            for _ in range(5):
                view.update(rows, "left")
        return text.getvalue()

    def test_before_there_are_rows_a_terminal_shows_one_line_and_no_table(self, clock: Callable[[], float]) -> None:
        text = io.StringIO()
        with DemoView(Console(file=text, force_terminal=True, width=120, color_system=None), clock) as view:
            view.update([], "Spark is starting")
        assert "Spark is starting" in text.getvalue()
        assert "principal" not in text.getvalue()

    def test_without_a_terminal_there_are_plain_lines_now_and_then(self, clock: Callable[[], float]) -> None:
        lines = self.shown(False, clock).splitlines()
        assert "traffic" in lines[0]
        assert "admitted 21, refused 33" in lines[1]
        assert 2 <= len(lines) <= 4
        assert not any("\x1b" in line for line in lines)

    def test_on_a_terminal_there_is_a_live_table(self, clock: Callable[[], float]) -> None:
        shown = self.shown(True, clock)
        assert "throttled until" in shown
        assert "12:00:00 UTC" in shown
        assert "\x1b[2J" not in shown


def test_the_principals_come_from_the_tables(tmp_path: Path) -> None:
    append(
        tmp_path,
        "producer_id_metrics",
        metrics("User:m", NOON.replace(minute=1), admitted_pids=20, refused_pids=1),
        metrics("User:m", NOON.replace(minute=2), refused_pids=2, tokens=-0.5, throttle_time_ms=90, batch_id=1),
        metrics("User:a", NOON.replace(minute=1), admitted_pids=3),
    )
    append(tmp_path, "throttle_decisions", decision("User:m", NOON))
    alice, mallory = read_principals(str(tmp_path), NOON)
    assert (alice.principal, alice.admitted, alice.throttled_until) == ("User:a", 3, None)
    assert (mallory.admitted, mallory.refused, mallory.tokens, mallory.throttle_time_ms) == (20, 3, -0.5, 90)
    assert mallory.throttled_until == NOON.replace(minute=1)
