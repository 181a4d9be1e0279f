"""A part and its process: what is done with it, and what is said of it."""

import errno
import io

import pytest

from jobs.output.terminal import WRONG_SETTING
from jobs.run.children import Command
from jobs.run.errors import PartFailedError
from jobs.run.log import RunLog
from jobs.run.parts import LongPart
from jobs.run.probes import Health
from tests.kits.child_kit import Children, FakeChild, HandClock

COMMAND = Command(("-m", "jobs", "stream"), {})


class Bench:
    """A part, its children and a clock."""

    def __init__(self, children: Children) -> None:
        self._children, self.clock = children, HandClock()
        self._output = io.StringIO()
        self._log = RunLog("text", self._output)
        self.prepared: list[int] = []
        self.part = LongPart(
            "stream",
            lambda: COMMAND,
            lambda: ("", ""),
            self._log,
            self.clock,
            prepare=lambda: self.prepared.append(self.starts()),
        )

    def turn(self, seconds: float = 1.0, *, is_wanted: bool = True) -> bool:
        return self.part.turn(self.clock.pass_s(seconds), is_wanted=is_wanted)

    def answer(self, unready: str = "", complaint: str = "") -> None:
        self._children.probers[-1].health = Health(self.clock.now_s, complaint, unready)

    def child(self) -> FakeChild:
        return self._children["stream"]

    def starts(self) -> int:
        return self._children.count("stream")

    def said(self) -> list[str]:
        self._log.close()
        return self._output.getvalue().splitlines()


@pytest.fixture
def bench(children: Children) -> Bench:
    return Bench(children)


def test_a_part_tells_once_that_it_has_ended_by_itself_and_not_that_it_was_asked_to(bench: Bench) -> None:
    assert bench.turn() is False
    bench.child().end(1, "its last line", error="no leader")
    assert [bench.turn(0), bench.turn(0)] == [True, False]
    bench.turn(2)
    assert bench.turn(is_wanted=False) is False
    assert bench.child().asked == ["terminate"]
    bench.child().end(0)
    assert bench.turn(is_wanted=False) is False
    first, error, second = bench.said()
    assert (first, error) == ("stream   | its last line", "stream   | no leader")
    assert second.endswith("the stream ended with exit code 1: it is started again in 1 s")


def test_a_changed_file_restarts_a_part_once(bench: Bench) -> None:
    # given a file that changes before the part runs
    bench.part.restart()
    bench.turn()
    bench.answer()
    bench.turn()
    assert bench.child().asked == []

    # when it changes again
    bench.part.restart()
    bench.turn()
    assert bench.child().asked == ["terminate"]
    bench.child().end(0)
    bench.turn()
    bench.turn()
    bench.answer()

    # then the next process has read it
    bench.turn()
    assert bench.starts() == 2
    assert bench.child().asked == []


def test_a_part_that_can_t_be_started_is_tried_again_after_a_while(bench: Bench, children: Children) -> None:
    children.failure = OSError(errno.ENOSPC, "No space left on device")
    bench.turn()
    assert children.probers[0].is_closed
    children.failure = None
    bench.turn(9)
    assert bench.starts() == 0
    bench.turn(1)
    assert bench.starts() == 1
    assert [each.partition("Z ")[2] for each in bench.said()] == [
        "the stream can't be started (No space left on device): tried again in 10 s"
    ]


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


@pytest.mark.parametrize(("unready", "seconds"), [("no batch has ended yet", 3), ("", 12)])
def test_a_part_that_was_never_ready_gets_less_time_to_end(bench: Bench, unready: str, seconds: int) -> None:
    bench.turn()
    bench.answer(unready)
    bench.turn()
    bench.turn(0, is_wanted=False)
    bench.turn(seconds - 1, is_wanted=False)
    assert bench.child().asked == ["terminate"]
    bench.turn(1, is_wanted=False)
    assert bench.child().asked == ["terminate", "kill"]


def test_a_part_whose_prober_can_t_begin_leaves_no_process(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EAGAIN, "can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr("jobs.run.parts.Prober", refuse)
        bench.turn()
        assert bench.starts() == 0
        assert not bench.part.has_process
    bench.turn(10)
    assert bench.starts() == 1
    assert "the stream can't be started (can't start new thread): tried again in 10 s" in bench.said()[0]


def test_a_part_that_gives_up_without_a_word_refers_to_its_lines(bench: Bench) -> None:
    bench.turn()
    bench.child().end(WRONG_SETTING)
    with pytest.raises(PartFailedError, match=r"^the stream can't run: see its lines above$"):
        bench.turn()


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
