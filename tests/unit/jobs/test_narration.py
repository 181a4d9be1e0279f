"""The lines of a running stream: quotas, the first decision, a line a minute, the way back after a pause."""

from collections.abc import Mapping
from typing import Any

import pytest

from jobs.stream.narration import Narrator, print_line
from jobs.stream.stream_metrics import STREAM_QUERY, Totals
from quota.limits import Quotas
from streaming.commit.sinks import BatchSummary
from streaming.listener import Progress

NOW_S = 1_790_000_000.0


class Told:
    """A narrator with a clock of its own, and the lines that it has printed."""

    def __init__(self) -> None:
        self.now_s = NOW_S
        self.lines: list[str] = []
        self.totals = Totals(principals=3, throttled=1)
        self.narrator = Narrator(
            lambda: self.totals,
            window_seconds=3600,
            clock_s=lambda: self.now_s,
            say=lambda text, _at_s: self.lines.append(text),
        )

    def batch(self, records: int, behind: int = 0, seconds: float = 0.4, *, query: str = STREAM_QUERY) -> None:
        self.narrator.report(Progress(query, 7, seconds, records, behind, 24, 1000))

    def decide(self, *actions: str, quotas: Quotas | None = None) -> None:
        rows = [decision(action) for action in actions]
        self.narrator.observe(BatchSummary(7, {"throttle_decisions": rows}, 0.1, quotas))


def decision(action: str) -> Mapping[str, Any]:
    until_ms = round((NOW_S + 600) * 1000)
    return {"principal": "User:mallory", "action": action, "quota": 20.0, "throttled_until": until_ms}


@pytest.fixture
def told() -> Told:
    return Told()


def test_a_minute_of_batches_makes_one_line(told: Told) -> None:
    for second in range(61):
        told.now_s = NOW_S + second
        told.batch(200, seconds=2.5 if second == 30 else 0.4)

    assert told.lines == [
        "203 records/s, 0 records behind, longest batch 2.5 s, 3 active principals, 1 throttled",
    ]


def test_an_idle_stream_prints_its_line_too(told: Told) -> None:
    told.narrator.idle(STREAM_QUERY)
    told.now_s += 60
    told.narrator.idle(STREAM_QUERY)

    assert told.lines == ["0 records/s, 0 records behind, longest batch 0.0 s, 3 active principals, 1 throttled"]


def test_the_queries_of_reports_print_nothing(told: Told) -> None:
    told.now_s += 120
    for _ in range(2):
        told.batch(9, query="pid-quota-reports")
        told.narrator.idle("pid-quota-reports")
        told.now_s += 120

    assert told.lines == []


def test_a_stream_that_catches_up_says_how_long_it_takes(told: Told) -> None:
    told.batch(100_000, behind=900_000)
    told.now_s += 10
    told.batch(100_000, behind=800_000)
    told.now_s += 10
    told.batch(100_000, behind=700_000)

    # 1,000,000 records when it started, so 200,000 in the first 10 s; then 100,000 in 10 s.
    assert [line.split(", ")[1:3] for line in told.lines] == [
        ["catching up: 800,000 records behind", "about 40 s left"],
        ["catching up: 700,000 records behind", "about 70 s left"],
    ]


def test_the_time_of_a_start_belongs_to_no_rate(told: Told) -> None:
    told.now_s += 30
    told.batch(50_000, behind=350_000, seconds=5)
    told.now_s += 5
    told.batch(50_000, behind=300_000, seconds=5)

    # 100,000 records in the 10 s since the first batch began.
    assert told.lines[0].startswith("10,000 records/s, catching up: 300,000 records behind, about 30 s left")


def test_each_line_compares_with_the_line_before(told: Told) -> None:
    told.batch(1000, behind=5000)
    for behind in (5500, 6000):
        told.now_s += 10
        told.batch(1000, behind=behind)

    # 1,500 records come in 10 s, and it reads 1,000.
    assert [line.split(", ", 1)[1].split(" records")[0] for line in told.lines] == [
        "catching up: 5,500",
        "falling behind: 6,000",
    ]


def test_a_late_line_has_the_rate_of_its_whole_time(told: Told) -> None:
    told.batch(0)
    told.now_s += 300
    told.batch(30_000)

    assert told.lines[0].startswith("100 records/s, ")


def test_it_says_until_when_it_learns_and_nothing_afterwards(told: Told) -> None:
    told.narrator.learns_until(NOW_S - 1, 4000)
    assert told.lines == []

    for below in (None, 4000):
        told.narrator.learns_until(NOW_S + 3600, below)
    assert told.lines == [
        "learning until 2026-09-21 15:13:20Z: until then it charges no producer id",
        "learning until 2026-09-21 15:13:20Z: until then it charges only producer ids from 4000 on",
    ]


def test_a_line_has_its_time_and_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    print_line("User:\x1b[2Jbob is\nreleased", NOW_S)

    assert capsys.readouterr().err == "2026-09-21 14:13:20Z User:\\x1b[2Jbob is released\n"
