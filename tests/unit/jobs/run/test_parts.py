"""When a part is started, ended and started again, and what is said of it."""

import errno
import io
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import WrongSettingError
from jobs.output.terminal import WRONG_SETTING
from jobs.run.children import Command
from jobs.run.log import RunLog
from jobs.run.parts import END_S, MAX_PAUSE_S, LongPart
from jobs.run.probes import Health
from tests.kits.child_kit import Children, FakeChild, HandClock

COMMAND = Command(("-m", "jobs", "stream"), {})


class Bench:
    """A part, its children and a clock. A process that is killed has ended before the next turn."""

    def __init__(self, children: Children) -> None:
        self._children, self.clock = children, HandClock()
        self._output = io.StringIO()
        self._log = RunLog("text", self._output)
        self.part = LongPart("stream", lambda: COMMAND, lambda: ("", ""), self._log, self.clock)
        self.starts_s: list[float] = []

    def turn(self, seconds: float = 1.0, *, is_wanted: bool = True) -> bool:
        for each in self._children.started:
            if "kill" in each.asked and each.code is None:
                each.end(-9)
        before = self.starts()
        has_ended = self.part.turn(self.clock.pass_s(seconds), is_wanted=is_wanted)
        assert sum(each.code is None for each in self._children.started) <= 1, "a second process beside the first"
        self.starts_s += [self.clock.now_s] * (self.starts() - before)
        return has_ended

    def run(self, seconds: float, *, unready: str = "") -> None:
        """Turn each second with a part that answers."""
        for _ in range(round(seconds)):
            if self.part.pid:
                self.answer(unready)
            self.turn()

    def answer(self, unready: str = "", complaint: str = "") -> None:
        self._children.probers[-1].health = Health(self.clock.now_s, complaint, unready)

    def child(self) -> FakeChild:
        return self._children["stream"]

    def starts(self) -> int:
        return self._children.count("stream")

    def pauses(self) -> list[float]:
        return [after - before for before, after in pairwise(self.starts_s)]

    def said(self) -> list[str]:
        """Return what is said of the part, and what it prints."""
        self._log.close()
        lines = (each.partition(" | ")[2] for each in self._output.getvalue().splitlines())
        return [each.partition("Z the stream ")[2] or each for each in lines]


@pytest.fixture
def bench(children: Children) -> Bench:
    return Bench(children)


def test_a_part_that_ends_at_once_is_started_again_after_pauses_that_double_up_to_a_minute(bench: Bench) -> None:
    while bench.starts() < 9:
        bench.turn()
        if bench.part.pid:
            bench.child().end(1)
    # The end is seen a second later.
    assert bench.pauses() == [2, 3, 5, 9, 17, 33, 61, 61]
    assert bench.part.restarts == 8
    assert bench.said()[0] == "ended with exit code 1: it is started again in 1 s"


def test_a_part_that_hangs_again_and_again_is_started_after_pauses_that_double(bench: Bench) -> None:
    while bench.starts() < 5:
        bench.turn()
        if bench.part.pid:
            bench.answer(complaint="it hangs")
    # It is killed a second after each start, and its end takes a second, too.
    assert bench.pauses() == [3, 3, 5, 9]


def test_five_minutes_of_health_of_one_process_make_the_next_pause_a_second_again(bench: Bench) -> None:
    for healthy_s in (200, 200, 302, 2):
        bench.run(healthy_s)
        bench.child().end(-11)
        bench.turn()
        bench.turn(10)
    assert bench.said() == [f"was ended by signal 11: it is started again in {pause} s" for pause in (1, 2, 1, 2)]


def test_five_minutes_without_health_do_not_make_the_next_pause_shorter(bench: Bench) -> None:
    for _ in range(3):
        bench.run(302, unready="no batch has ended yet")
        bench.child().end(1)
        bench.turn()
        bench.turn(10)
    assert bench.said() == [f"ended with exit code 1: it is started again in {pause} s" for pause in (1, 2, 4)]


@pytest.mark.parametrize(
    ("is_ready", "complaint", "seconds", "said"),
    [
        (False, "", 300, "no answer for 300 s"),
        (True, "", 60, "no answer for 60 s"),
        (True, "the JVM has not answered for 61 s", 1, "the JVM has not answered for 61 s"),
    ],
)
def test_a_part_that_hangs_is_killed_and_started_again(
    bench: Bench, is_ready: bool, complaint: str, seconds: int, said: str
) -> None:
    bench.turn()
    if is_ready:
        bench.answer(complaint=complaint)
    bench.turn(seconds - 1)
    assert bench.child().asked == (["kill"] if complaint else [])
    bench.turn(1)
    bench.turn(2)
    bench.turn(2)
    assert bench.starts() == 2
    assert bench.said() == [f"hangs ({said}): it is killed and started again"]


def test_a_part_that_answers_is_left_alone_for_a_day_even_if_it_is_not_ready(bench: Bench) -> None:
    bench.run(86_400, unready="no batch has ended yet")
    assert (bench.starts(), bench.child().asked, bench.said()) == (1, [], [])


def test_a_part_tells_once_that_it_has_ended_by_itself_and_not_that_it_was_asked_to(bench: Bench) -> None:
    assert bench.turn() is False
    bench.child().end(1, "its last line", error="no leader")
    assert [bench.turn(0), bench.turn(0)] == [True, False]
    bench.turn(2)
    assert bench.turn(is_wanted=False) is False
    assert bench.child().asked == ["terminate"]
    bench.child().end(0)
    assert bench.turn(is_wanted=False) is False
    assert bench.said() == ["its last line", "no leader", "ended with exit code 1: it is started again in 1 s"]


def test_a_changed_file_restarts_a_part_once_and_without_a_pause(bench: Bench) -> None:
    # given a file that changes before the part runs
    bench.part.restart()
    bench.run(2)
    assert bench.child().asked == []

    # when it changes again
    bench.part.restart()
    bench.turn()
    assert bench.child().asked == ["terminate"]
    bench.child().end(0)
    bench.run(2)

    # then the next process has read it
    bench.run(2)
    assert bench.starts() == 2
    assert bench.child().asked == []


def test_a_changed_file_ends_the_pause_before_a_start(bench: Bench) -> None:
    # given a part that has ended often, and waits for long
    for _ in range(6):
        bench.turn(60)
        bench.child().end(1)
        bench.turn()
    starts = bench.starts()
    bench.turn()
    assert bench.starts() == starts

    # when a file of its settings changes
    bench.part.restart()
    bench.turn()
    assert bench.starts() == starts + 1


@pytest.mark.parametrize("fault", ["process", "prober"])
def test_a_part_that_can_t_be_started_leaves_no_process_and_is_tried_again_after_a_while(
    bench: Bench, children: Children, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(f"jobs.run.parts.{'ChildProcess' if fault == 'process' else 'Prober'}", refuse)
        bench.turn()
        bench.turn(9)
    assert (bench.starts(), bench.part.pid) == (0, None)
    assert all(each.is_closed for each in children.probers)
    bench.turn(1)
    assert bench.starts() == 1
    assert bench.said() == ["can't be started (No space left on device): tried again in 10 s"]


@pytest.mark.parametrize(("unready", "seconds"), [("no batch has ended yet", 3), ("", 12)])
def test_a_part_that_does_not_end_when_asked_is_killed_sooner_if_it_was_never_ready(
    bench: Bench, unready: str, seconds: int
) -> None:
    bench.turn()
    bench.answer(unready)
    bench.turn()
    bench.turn(0, is_wanted=False)
    bench.turn(seconds - 1, is_wanted=False)
    assert bench.child().asked == ["terminate"]
    bench.turn(1, is_wanted=False)
    assert bench.child().asked == ["terminate", "kill"]


def test_a_wrong_setting_ends_all_but_only_before_a_process_has_worked(bench: Bench, children: Children) -> None:
    bench.turn()
    bench.child().end(WRONG_SETTING)
    with pytest.raises(WrongSettingError, match=r"^the stream can't run: see its lines above$"):
        bench.turn()

    # given a part that was ready, and whose next process has not begun yet
    again = Bench(children)
    again.run(2)
    again.child().end(1)
    again.turn()
    again.turn(2)

    # when that one finds a setting wrong, then it is tried again
    again.child().end(WRONG_SETTING)
    again.turn()
    assert again.said()[-1] == "ended with exit code 2: it is started again in 2 s"


def test_a_wrong_setting_of_a_part_that_nobody_wants_any_more_does_not_keep_the_others_from_their_end(
    bench: Bench,
) -> None:
    bench.turn()
    bench.child().end(WRONG_SETTING, error="a wrong setting")
    bench.turn(is_wanted=False)
    assert (bench.part.pid, bench.said()) == (None, ["a wrong setting"])


def test_a_part_has_the_health_of_the_process_that_runs_now(bench: Bench, children: Children) -> None:
    assert (bench.part.health.unready, bench.part.is_up) == ("it does not run", False)
    bench.turn()
    assert (bench.part.health.unready, bench.part.is_up) == ("it starts", False)
    bench.answer()
    assert (bench.part.health.unready, bench.part.is_up) == ("", True)

    # when it is asked to end, then its answers do not count
    bench.turn(is_wanted=False)
    assert (bench.part.health.unready, bench.part.is_up) == ("it does not run", False)
    bench.child().end(0)
    bench.turn()
    assert children.probers[0].is_closed
    bench.turn()
    assert bench.part.health.unready == "it starts"


HAPPENINGS = st.sampled_from(["pass", "end", "wrong", "answer", "complain", "unwanted", "outdated"])


@pytest.fixture(scope="module")
def shared_children() -> Iterator[Children]:
    with pytest.MonkeyPatch.context() as patch:
        yield Children(patch)


@given(happenings=st.lists(st.tuples(HAPPENINGS, st.integers(1, 90)), max_size=60))
def test_whatever_happens_there_is_one_process_and_it_runs_again_once_nothing_happens(
    shared_children: Children, happenings: list[tuple[str, int]]
) -> None:
    shared_children.started.clear()
    bench = Bench(shared_children)
    for what, seconds in happenings:
        if bench.part.pid and what in ("end", "wrong"):
            bench.child().end(1 if what == "end" else WRONG_SETTING)
        if bench.part.pid and what in ("answer", "complain"):
            bench.answer(complaint="it hangs" if what == "complain" else "")
        if what == "outdated":
            bench.part.restart()
        if bench.part.pid and "terminate" in bench.child().asked:
            bench.child().end(0)
        try:
            bench.turn(seconds, is_wanted=what != "unwanted")
        except WrongSettingError:
            return
    for _ in range(round(MAX_PAUSE_S + END_S) + 10):
        bench.run(1)
    assert bench.child().code is None
