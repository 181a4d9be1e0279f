"""The parts of the demo, each without a broker."""

import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from jobs.demo.clients import Traffic
from jobs.demo.demo_folder import MARKER, prepare_folder
from jobs.demo.demo_run import Result
from jobs.demo.interrupts import Interrupts
from jobs.demo.own_run import OwnRun, console_port, own_run
from jobs.demo.watching import Slowing
from jobs.errors import JobError, WrongSettingError
from jobs.run.folder import own_folder
from jobs.run.log import RunLog
from jobs.run.settings import RunSettings
from jobs.services.listening import LOOPBACK, Address, listening
from jobs.services.metrics_server import no_reason, served
from streaming.checkpoint.spark_files import committed_offsets

Begun = Callable[[Address, Address], None]
Supervise = Callable[[RunSettings, RunLog, threading.Event, Begun], object]
OfRun = AbstractContextManager[OwnRun]


def settings(data: Path) -> RunSettings:
    return RunSettings(bootstrap_server="127.0.0.1:9", data=data)


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
        with pytest.raises(JobError, match="--data"):
            prepare_folder(tmp_path)
        assert [file.name for file in tmp_path.iterdir()] == ["thesis"]

    def test_a_file_in_the_way_is_one_line(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(JobError, match="not writable"):
            prepare_folder(tmp_path / "file")

    def test_a_folder_of_a_demo_that_still_runs_stays_as_it_is(self, tmp_path: Path) -> None:
        prepare_folder(tmp_path / "demo")
        with own_folder(settings(tmp_path / "demo")), pytest.raises(JobError, match="another"):
            prepare_folder(tmp_path / "demo")
        assert (tmp_path / "demo" / MARKER).is_file()


class TestOwnRun:
    """`supervise` is a function of the test."""

    @pytest.fixture
    def begin(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signals_as_before: None
    ) -> Callable[[Supervise], OfRun]:
        monkeypatch.setattr("sys.unraisablehook", sys.__unraisablehook__)

        def begin(supervise: Supervise) -> OfRun:
            monkeypatch.setattr("jobs.demo.own_run.supervise", supervise)
            return own_run(settings(tmp_path), tmp_path / "run.log", Interrupts())

        return begin

    def test_it_is_ready_when_its_probe_says_so_and_ends_with_the_block(
        self, begin: Callable[[Supervise], OfRun]
    ) -> None:
        reasons, ended = ["stream: it starts", "console: it starts", ""], threading.Event()

        def supervise(_settings: object, _log: RunLog, stop: threading.Event, begun: Begun) -> None:
            with served(listening(LOOPBACK, 0), Mock(), lambda: reasons.pop(0), no_reason) as port:
                begun((LOOPBACK, 4321), (LOOPBACK, port))
                stop.wait()
            ended.set()

        with begin(supervise) as run:
            assert run.await_console() == "http://127.0.0.1:4321/"
            run.await_ready()
            assert reasons == []
        assert ended.is_set()

    def test_an_error_that_ends_it_is_raised_by_who_waits(self, begin: Callable[[Supervise], OfRun]) -> None:
        with (
            begin(Mock(side_effect=WrongSettingError("no Java"))) as run,
            pytest.raises(WrongSettingError, match="no Java"),
        ):
            run.await_console()

    def test_a_part_that_does_not_stay_up_is_quoted_in_one_line(self, begin: Callable[[Supervise], OfRun]) -> None:
        def supervise(_settings: object, log: RunLog, stop: threading.Event, _begun: Begun) -> None:
            log.line("stream", "no Spark")
            log.say("the stream ended with exit code 3: it is started again in 1 s")
            stop.wait()

        with begin(supervise) as run, pytest.raises(JobError, match=r"no Spark run .* exit code 3: .*run\.log"):
            run.await_ready()

    def test_a_signal_in_a_finalizer_ends_the_next_wait(
        self, begin: Callable[[Supervise], OfRun], capsys: pytest.CaptureFixture[str]
    ) -> None:
        class Finalized:
            def __del__(self) -> None:
                signal.raise_signal(signal.SIGTERM)

        with begin(lambda _settings, _log, stop, _begun: stop.wait()) as run:
            Finalized()
            with pytest.raises(KeyboardInterrupt):
                run.await_console()
        assert capsys.readouterr().err == ""


def test_a_port_of_the_console_that_is_taken_gives_way_to_a_free_one() -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        assert console_port(port) == 0
    assert console_port(port) == port


def test_the_offsets_of_the_last_finished_batch_by_number_are_the_committed_ones(tmp_path: Path) -> None:
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    for batch in (2, 9, 10, 11):
        text = f'v1\n{{}}\n{{"events":{{"0":{batch},"1":0}}}}'
        (tmp_path / "offsets" / str(batch)).write_text(text, encoding="utf-8")
    assert committed_offsets(str(tmp_path)) is None
    for file in ("2", "9", "10", ".11.crc"):
        (tmp_path / "commits" / file).touch()
    assert committed_offsets(str(tmp_path)) == {"events": {0: 10, 1: 0}}


class TestResult:
    GOOD = Result(
        frozenset({"User:alice", "User:mallory"}),
        frozenset({"User:mallory"}),
        Traffic(3, 600),
        Traffic(116, 110, 6),
        60.0,
        Slowing(20.0, 100),
    )

    def test_mallory_throttled_and_alice_not_is_as_expected(self) -> None:
        assert self.GOOD.as_expected

    @pytest.mark.parametrize(
        "change",
        [
            {"throttled": frozenset()},
            {"throttled": frozenset({"User:alice"})},
            {"throttled": frozenset({"User:alice", "User:mallory"})},
            {"seen": frozenset()},
        ],
    )
    def test_anything_else_is_not(self, change: dict[str, Any]) -> None:
        assert not replace(self.GOOD, **change).as_expected
