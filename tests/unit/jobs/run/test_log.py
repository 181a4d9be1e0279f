"""The one log: lines of all parts, whatever they print and whoever reads."""

import io
import json
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from jobs.run.log import MAX_LINE_BYTES, Lines, RunLog

NOW_S = 1_800_000_000.0
AT = "2027-01-15 08:00:00Z"


def written(form: str, *lines: tuple[str, str]) -> list[str]:
    output = io.StringIO()
    log = RunLog("json" if form == "json" else "text", output, lambda: NOW_S)
    for part, text in lines:
        log.line(part, text)
    log.say("all parts end")
    log.close()
    return output.getvalue().splitlines()


def test_a_line_begins_with_its_part_and_shows_control_characters() -> None:
    assert written("text", ("stream", f"{AT} User:a\x1b[2J is on hold"), ("console", "\tok")) == [
        f"stream   | {AT} User:a\\x1b[2J is on hold",
        "console  |     ok",
        f"run      | {AT} all parts end",
    ]


def test_json_lines_have_the_time_that_a_part_gave_or_that_of_now() -> None:
    found = [json.loads(each) for each in written("json", ("stream", "2026-01-02 03:04:05Z a 'b' \"c\""), ("x", "d"))]
    assert found == [
        {"time": "2026-01-02T03:04:05Z", "part": "stream", "message": "a 'b' \"c\""},
        {"time": "2027-01-15T08:00:00Z", "part": "x", "message": "d"},
        {"time": "2027-01-15T08:00:00Z", "part": "run", "message": "all parts end"},
    ]


@given(st.lists(st.binary(max_size=40)))
def test_lines_are_the_same_however_the_bytes_come(pieces: list[bytes]) -> None:
    found, whole = list[str](), list[str]()
    cut = Lines(found.append)
    for each in pieces:
        cut.feed(each)
    cut.close()
    at_once = Lines(whole.append)
    at_once.feed(b"".join(pieces))
    at_once.close()
    assert found == whole
    assert not any("\n" in each for each in found)


def test_a_long_line_is_cut_and_the_next_is_whole() -> None:
    found = list[str]()
    lines = Lines(found.append)
    for _ in range(100):
        lines.feed(b"x" * 1_000)
    lines.feed(b"\nnext\n")
    assert found == ["x" * MAX_LINE_BYTES + f" … ({100_000 - MAX_LINE_BYTES} bytes more)", "next"]


class Blocked(io.StringIO):
    """An output that nobody reads for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go_on = threading.Event()

    @override
    def write(self, text: str) -> int:
        self.may_go_on.wait(60)
        return super().write(text)


def test_the_number_of_lost_lines_is_said_once_when_the_log_is_read_again() -> None:
    # given a log of which nobody read, and lines that were lost
    output = Blocked()
    log = RunLog("text", output, lambda: NOW_S)
    while log.dropped < 3:
        log.line("stream", "x" * 1_000)

    # when somebody reads it
    output.may_go_on.set()
    give_up_at, before = time.monotonic() + 30, -1
    while before != log.dropped:
        assert time.monotonic() < give_up_at
        time.sleep(0.01)
        before = log.dropped
        log.line("console", "first")
    log.line("console", "second")
    log.close()

    # then the next line has the number before it
    *_, lost, first, second = output.getvalue().splitlines()
    assert lost == f"run      | {log.dropped} lines dropped, because nobody read this log"
    assert (first, second) == ("console  | first", "console  | second")
    assert output.getvalue().count("dropped") == 1


def test_the_end_does_not_wait_for_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.run.log._CLOSE_S", 0.05)
    output = Blocked()
    log = RunLog("text", output, lambda: NOW_S)
    log.line("stream", "x")
    began_s = time.monotonic()
    log.close()
    assert time.monotonic() - began_s < 30
    output.may_go_on.set()


@pytest.mark.parametrize(
    ("encoding", "shown"), [("latin-1", "User:\\u0142 ä"), ("ascii", "User:\\u0142 \\xe4"), ("utf-8", "User:ł ä")]
)
def test_characters_that_the_output_lacks_are_escaped_and_end_nothing(encoding: str, shown: str) -> None:
    kept = io.BytesIO()
    log = RunLog("text", io.TextIOWrapper(kept, encoding=encoding), lambda: NOW_S)
    log.line("stream", "User:ł ä")
    log.line("stream", "the next")
    log.close()
    assert kept.getvalue().decode(encoding).splitlines() == [f"stream   | {shown}", "stream   | the next"]
    assert log.dropped == 0


class Failing(io.StringIO):
    """An output whose first write fails."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._errors = [error]

    @override
    def write(self, text: str) -> int:
        if self._errors:
            raise self._errors.pop()
        return super().write(text)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ValueError("closed"), BrokenPipeError()])
def test_a_line_that_can_t_be_written_counts_as_dropped_and_the_next_is_printed(error: Exception) -> None:
    output = Failing(error)
    log = RunLog("text", output, lambda: NOW_S)
    log.line("stream", "first")
    give_up_at = time.monotonic() + 60
    while not log.dropped:
        assert time.monotonic() < give_up_at
        time.sleep(0.01)
    log.line("stream", "second")
    log.close()
    assert output.getvalue() == "stream   | second\n"


@pytest.mark.parametrize("text", [b"\xff\xfe", "ä\u2028b".encode(), b"a\r"])
def test_any_bytes_become_one_printable_line(text: bytes) -> None:
    found = list[str]()
    Lines(found.append).feed(text + b"\n")
    (line,) = written("text", ("x", found[0]))[:1]
    assert line.isprintable()
