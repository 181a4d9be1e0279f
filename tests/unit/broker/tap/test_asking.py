import os
import threading
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path

import pytest

from broker.errors import ClusterRequestError
from broker.tap import asking
from broker.tap.asking import AskBrokers, Asking, ask_brokers, load_answers, save_answers
from broker.tap.broker_watch import BrokerWatch
from broker.tap.known_ids import KnownIds, Watched

HOUR_MS = 3_600_000
LIMIT_S = 60.0
FAR_MS = 10**15
"""A line's time after each answer."""
BEFORE_MS = 10**12
"""One before."""


class Brokers:
    """Hold ids; answer when they may."""

    def __init__(self, *ids: int) -> None:
        self.ids = list(ids)
        self.error: Exception | None = None
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.asked: list[Mapping[str, Watched]] = []

    def __call__(self, watched: Mapping[str, Watched], stop: threading.Event) -> KnownIds:
        self.asked.append(watched)
        assert self.may_answer.wait(LIMIT_S)
        if self.error:
            raise self.error
        return KnownIds.of(watched, [self.ids])


class Tap:
    """What a tap does in a round, with its clock."""

    def __init__(self, brokers: Brokers, file: Path | None = None, ask: AskBrokers | None = None) -> None:
        self.brokers, self.said = brokers, list[str]()
        self.clock_ms: int | None = None
        self.asking = Asking(ask or brokers, HOUR_MS, file, self.said.append, self.wall_clock)
        self.logs = {name: BrokerWatch(number, learn_ms=HOUR_MS) for number, name in enumerate("ab")}
        self.now_s, self.stop = 1000.0, threading.Event()

    def wall_clock(self) -> float:
        return time.time() if self.clock_ms is None else self.clock_ms / 1000

    def reads(self, stream: str, at_ms: int) -> None:
        self.logs[stream].learning.observe(at_ms, HOUR_MS)

    def that_watches_for_hours(self) -> "Tap":
        for at_ms in range(1000, 1000 + 2 * HOUR_MS, HOUR_MS // 4):
            self.reads("a", at_ms)
        return self

    def round(self, requested_ms: int = 0) -> None:
        self.asking.step(self.logs, self.now_s, self.stop, requested_ms)
        self.asking.close()

    def checks(self, stream: str, producer_id: int, line_ms: int = FAR_MS) -> tuple[bool, int | None]:
        log, at_ms = self.logs[stream], self.logs[stream].learning.newest_ms
        learning = log.learning.is_learning(at_ms, HOUR_MS)
        return log.answers.check(producer_id, line_ms, log.learning.since_ms, learning=learning)

    def is_new(self, stream: str, producer_id: int) -> bool:
        # One to ask, one to take the answer.
        self.round()
        self.round()
        known = self.logs[stream].answers.of_watch
        return known is not None and producer_id not in known


def test_a_watch_that_begins_is_asked_for_once() -> None:
    tap = Tap(Brokers(5, 7))
    tap.reads("a", 1000)
    tap.reads("a", 5000)
    for _ in range(3):
        tap.round()

    assert tap.brokers.asked == [{"a": Watched(1000, 5000), "b": Watched(-1, 0)}]
    assert (tap.is_new("a", 6), tap.is_new("a", 7)) == (True, False)
    assert tap.said == ["2 producer ids existed before; from now on all others count as new"]


def test_another_broker_that_appears_is_asked_for_and_is_not_covered_by_the_answer_before() -> None:
    tap = Tap(Brokers(5))
    tap.reads("a", 1000)
    tap.round()
    tap.reads("b", 5000)

    assert tap.logs["b"].answers.of_watch is None
    assert tap.is_new("a", 6)
    assert tap.is_new("b", 6)
    assert tap.brokers.asked[-1] == {"a": Watched(1000, 1000), "b": Watched(5000, 5000)}


def test_ids_that_are_new_at_the_question_for_a_broker_stay_new_there_after_the_next_question() -> None:
    tap = Tap(Brokers(5))
    tap.reads("a", 1000)
    assert tap.is_new("a", 6)

    # It is charged or refused by now, and held.
    tap.brokers.ids.append(6)
    tap.reads("b", 5000)

    assert tap.is_new("a", 6)
    assert not tap.is_new("b", 6)


def test_a_watch_that_begins_anew_is_asked_for_again() -> None:
    tap = Tap(Brokers(5))
    tap.reads("a", 1000)
    assert tap.is_new("a", 6)

    tap.logs["a"].learning.restart()
    tap.reads("a", 60_000)
    tap.brokers.ids.append(6)
    tap.round()

    assert [asked["a"] for asked in tap.brokers.asked] == [Watched(1000, 1000), Watched(60_000, 60_000)]
    assert (tap.is_new("a", 6), tap.is_new("a", 8)) == (False, True)


def test_an_answer_is_kept_while_its_watch_learns() -> None:
    tap = Tap(Brokers(5))
    tap.reads("a", 1000)
    assert not tap.is_new("a", 5)
    tap.that_watches_for_hours().round()

    assert tap.checks("a", 5) == (False, None)
    assert tap.logs["a"].answers.of_watch is None


def test_a_gap_during_a_question_makes_its_answer_worthless() -> None:
    tap = Tap(Brokers(5))
    tap.brokers.may_answer.clear()
    tap.reads("a", 1000)
    tap.asking.step(tap.logs, tap.now_s, tap.stop)
    tap.logs["a"].learning.restart()
    tap.reads("a", 60_000)
    tap.brokers.may_answer.set()
    tap.asking.close()

    tap.round()

    assert [asked["a"].since_ms for asked in tap.brokers.asked] == [1000, 60_000]


@pytest.mark.parametrize("times_ms", [(), range(0, HOUR_MS + 1, HOUR_MS // 4)], ids=["no line", "a window"])
def test_nothing_is_asked_before_a_line_was_read_or_after_a_window(times_ms: Iterable[int]) -> None:
    tap = Tap(Brokers(5))
    for at_ms in times_ms:
        tap.reads("a", at_ms)

    tap.round()

    assert tap.brokers.asked == []


@pytest.mark.parametrize(
    ("error", "reason"), [(ClusterRequestError("grant READ"), "grant READ"), (RuntimeError(), "it failed")]
)
def test_a_question_that_fails_is_asked_again_in_a_minute_and_reported_once(
    monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    tap = Tap(Brokers(5))
    tap.brokers.error = error
    tap.reads("a", 1000)
    for _ in range(3):
        tap.round()
    assert len(tap.brokers.asked) == 1

    tap.now_s += 61
    tap.round()
    tap.round()
    assert len(tap.brokers.asked) == 2
    assert tap.said == [
        f"can't ask for older producer ids ({reason}): nothing is charged for 3600 s, or until an answer; "
        "asking again in 30 s"
    ]

    tap.brokers.error = None
    tap.now_s += 61
    tap.round()
    assert tap.is_new("a", 6)


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_tap_that_stops_ends_its_question_and_says_nothing(monkeypatch: pytest.MonkeyPatch, is_stopped: bool) -> None:
    def held(_admin: object, wait: Callable[[float], None]) -> Iterator[list[int]]:
        yield [5]
        wait(0)
        yield [7]

    monkeypatch.setattr(asking, "ProducersAdmin", nullcontext)
    monkeypatch.setattr(asking, "held_ids", held)
    tap = Tap(Brokers(), ask=ask_brokers({}))
    tap.reads("a", 1000)
    if is_stopped:
        tap.stop.set()

    tap.round()
    tap.round()

    assert (tap.logs["a"].answers.of_watch is None) == is_stopped
    assert len(tap.said) == (not is_stopped)


def test_the_next_run_goes_on_with_the_answer(tmp_path: Path) -> None:
    first = Tap(Brokers(5, 2**63 - 1), tmp_path / "ids")
    first.reads("a", 1000)
    first.round()
    first.round()

    second = Tap(Brokers(), tmp_path / "ids")
    second.asking.load()
    second.reads("a", 1000)

    assert [second.is_new("a", each) for each in (5, 6, 2**63 - 1)] == [False, True, False]
    assert second.brokers.asked == []


def test_an_answer_that_cannot_be_saved_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = (KnownIds({"a": Watched(0, 0)}, array("q", ids)) for ids in ([5], [5, 7]))
    save_answers(tmp_path / "ids", {"a": old})

    def full(_file: int) -> None:
        raise OSError

    monkeypatch.setattr(os, "fsync", full)
    save_answers(tmp_path / "ids", {"a": new})

    answers, _ = load_answers(tmp_path / "ids")
    assert list(answers["a"].ids) == [5]


def test_an_answer_is_dropped_when_nobody_learns_any_more() -> None:
    tap = Tap(Brokers(5))
    tap.reads("a", 1000)
    assert tap.is_new("a", 6)

    tap.reads("a", 1000 + HOUR_MS)
    tap.round()

    assert tap.logs["a"].answers.of_watch is None
    assert len(tap.brokers.asked) == 1


@pytest.mark.parametrize(
    "damaged",
    [
        lambda whole: b"",
        lambda whole: b"nothing\n12345678",
        lambda whole: whole.partition(b"\n")[0] + b"\n",
        lambda whole: whole[:-8],
        lambda whole: whole[:-3],
        lambda whole: whole[:-1] + bytes([whole[-1] ^ 1]),
    ],
)
def test_a_torn_answer_is_asked_for_again(tmp_path: Path, damaged: Callable[[bytes], bytes]) -> None:
    first = Tap(Brokers(5, 7), tmp_path / "ids")
    first.reads("a", 1000)
    first.round()
    first.round()
    (tmp_path / "ids").write_bytes(damaged((tmp_path / "ids").read_bytes()))

    tap = Tap(Brokers(5), tmp_path / "ids")
    tap.asking.load()
    tap.reads("a", 1000)
    tap.round()

    assert len(tap.brokers.asked) == 1


LATER_MS = 1000 + 2 * HOUR_MS


def test_a_stream_that_forgot_has_old_taps_ask_and_learns_what_is_new() -> None:
    tap = Tap(Brokers(5)).that_watches_for_hours()

    tap.round(LATER_MS)
    tap.round(LATER_MS)

    assert [tap.checks("a", each) for each in (5, 6)] == [(False, None), (False, LATER_MS)]
    assert len(tap.brokers.asked) == 1


def test_ids_that_are_new_at_the_first_request_stay_new_after_the_second() -> None:
    tap = Tap(Brokers(5)).that_watches_for_hours()
    for ids, requested_ms in (([5], LATER_MS), ([5, 6], LATER_MS + 100_000)):
        tap.brokers.ids = ids
        tap.now_s += 61
        tap.round(requested_ms)
        tap.round(requested_ms)

    checked = [tap.checks("a", each) for each in (5, 6, 7)]
    assert checked == [(False, None), (False, LATER_MS), (False, LATER_MS + 100_000)]


def test_requests_make_a_tap_ask_once_a_minute_at_most_and_keep_three_answers() -> None:
    tap = Tap(Brokers(5)).that_watches_for_hours()
    for number in range(1, 400):
        tap.now_s += 1
        tap.round(LATER_MS + number * 1000)

    assert len(tap.brokers.asked) in range(6, 8)
    assert len(tap.logs["a"].answers.requested) == 3


AHEAD_MS = 40_000
"""A host's clock before the others'."""


def test_a_broker_whose_clock_is_ahead_does_not_date_the_question_nor_hide_a_request() -> None:
    tap = Tap(Brokers(5)).that_watches_for_hours()
    tap.reads("a", LATER_MS)
    tap.reads("b", LATER_MS + AHEAD_MS)
    for at_ms in (LATER_MS, LATER_MS + 20_000):
        tap.clock_ms, tap.now_s = at_ms, tap.now_s + 61
        tap.round(at_ms)
        tap.round(at_ms)

    asked = [[watched.asked_at_ms for watched in each.values()] for each in tap.brokers.asked]
    assert asked == [[LATER_MS, LATER_MS], [LATER_MS + 20_000, LATER_MS + 20_000]]
    assert [tap.checks("b", each) for each in (5, 6)] == [(True, None), (False, LATER_MS + 20_000)]


def test_on_a_host_whose_clock_is_ahead_what_was_held_at_a_loss_is_not_new_since_it() -> None:
    # Given a tap that asked by its clock after the loss, in truth 20 seconds before it.
    tap, lost_ms = Tap(Brokers(5)), LATER_MS + 20_000
    tap.clock_ms = LATER_MS + AHEAD_MS
    tap.reads("a", tap.clock_ms)
    assert tap.is_new("a", 6)
    tap.brokers.ids = [5, 6]

    tap.round(lost_ms)
    before_the_answer = tap.checks("a", 6)
    tap.round(lost_ms)

    assert before_the_answer == tap.checks("a", 6) == (False, lost_ms - 1)
    assert tap.checks("a", 7) == (False, LATER_MS + AHEAD_MS)


def test_the_answer_to_a_request_outlives_the_tap_but_not_the_request(tmp_path: Path) -> None:
    first = Tap(Brokers(5), tmp_path / "ids").that_watches_for_hours()
    first.round(LATER_MS)
    first.round(LATER_MS)
    second = Tap(Brokers(5, 6), tmp_path / "ids").that_watches_for_hours()
    second.asking.load()

    second.round(LATER_MS)
    assert second.checks("a", 6) == (False, LATER_MS)
    assert second.brokers.asked == []

    second.round(0)
    assert second.checks("a", 6) == (False, None)


def test_a_watch_that_begins_while_a_stream_learns_is_answered_at_once_for_both() -> None:
    tap = Tap(Brokers(5))
    tap.reads("a", 1000)
    for _ in range(3):
        tap.round(7000)

    assert [tap.checks("a", each) for each in (5, 6)] == [(True, None), (False, 7000)]
    assert len(tap.brokers.asked) == 1


def test_a_line_written_before_the_answer_is_judged_so_by_the_next_run_too(tmp_path: Path) -> None:
    taps = [Tap(Brokers(5), tmp_path / "ids") for _ in range(2)]
    for tap in taps:
        tap.asking.load()
        tap.reads("a", 1000)
        tap.round(7000)
        tap.round(7000)

        assert [tap.checks("a", 6, line_ms) for line_ms in (BEFORE_MS, FAR_MS)] == [(True, None), (False, 7000)]
    assert [len(tap.brokers.asked) for tap in taps] == [1, 0]
