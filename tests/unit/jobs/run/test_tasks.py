"""When a task of `run` runs, ends and is tried again."""

import errno
from itertools import pairwise

import pytest

from jobs.run.children import Command
from jobs.run.tasks import Done, Task
from tests.kits.child_kit import Children, FakeChild, HandClock

LIMIT_S = 180.0
COMMAND = Command(("-m", "jobs", "maintain"), {})


class Bench:
    """A task, its children and a clock."""

    def __init__(self, children: Children, *, every_s: float | None = 600.0, first_s: float = 0.0) -> None:
        self._children, self.clock = children, HandClock()
        self.task = Task("maintain", lambda: COMMAND, self.clock, limit_s=LIMIT_S, every_s=every_s, first_s=first_s)

    def turn(self, seconds: float = 0.0, *, is_wanted: bool = True) -> Done | None:
        return self.task.turn(self.clock.pass_s(seconds), is_wanted=is_wanted)

    def child(self) -> FakeChild:
        return self._children["maintain"]

    def starts(self) -> int:
        return self._children.count("maintain")

    def start_s(self) -> float:
        """Turn until the task starts once more, and return when."""
        before, give_up_at = self.starts(), self.clock.now_s + 1_000
        while self.starts() == before:
            assert self.clock.now_s < give_up_at, "it is not started"
            self.turn(1)
        return self.clock.now_s


def test_a_task_waits_for_its_first_time_and_then_runs_at_its_interval(children: Children) -> None:
    bench = Bench(children, first_s=120)
    assert bench.start_s() == pytest.approx(120, abs=1)
    bench.child().end(0, "1 file removed")
    assert bench.turn(1) == Done(0, ("1 file removed",), "")
    assert bench.task.is_done
    ended_s = bench.clock.now_s
    assert bench.start_s() - ended_s == pytest.approx(600, abs=1)


def test_a_task_without_an_interval_runs_once_and_again_when_it_is_asked_to(children: Children) -> None:
    bench = Bench(children, every_s=None)
    bench.turn()
    bench.child().end()
    bench.turn(1)
    for _ in range(2_000):
        bench.turn(1)
    assert bench.starts() == 1
    bench.task.run_again(after_s=5)
    asked_s = bench.clock.now_s
    assert bench.start_s() - asked_s == pytest.approx(5, abs=1)


def test_a_task_that_is_asked_for_while_it_runs_runs_again_at_once(children: Children) -> None:
    """The file of quotas may change while it is read."""
    bench = Bench(children)
    for code in (0, 1):
        bench.turn()
        bench.task.run_again()
        bench.child().end(code)
        bench.turn(1)
        before = bench.starts()
        bench.turn(1)
        assert bench.starts() == before + 1


def test_a_task_that_takes_too_long_is_killed_and_says_so(children: Children) -> None:
    bench = Bench(children)
    bench.turn()
    bench.turn(LIMIT_S)
    assert bench.child().asked == []
    bench.turn(1)
    assert bench.child().asked == ["kill"]
    bench.child().end(-9, "half of it")
    assert bench.turn() == Done(-9, ("half of it",), "it took longer than 180 s")
    assert not bench.task.is_done


def test_a_task_that_fails_says_its_error_or_its_last_line(children: Children) -> None:
    bench = Bench(children)
    for ended, error in (({"error": "no space"}, "no space"), ({}, "b"), (None, "exit code 1")):
        bench.start_s()
        lines = ("a", "b") if ended is not None else ()
        bench.child().end(1, *lines, **(ended or {}))
        done = bench.turn()
        assert done is not None
        assert (done.exit_code, done.error) == (1, error)
    assert bench.task.failures == 3


@pytest.mark.parametrize(
    ("every_s", "expected"), [(None, [10, 20, 40, 80, 160, 320, 600, 600]), (60.0, [10, 20, 40, 60, 60])]
)
def test_a_task_that_fails_is_tried_again_after_pauses_that_double_up_to_its_interval(
    children: Children, every_s: float | None, expected: list[float]
) -> None:
    bench = Bench(children, every_s=every_s)
    starts = []
    for _ in range(len(expected) + 1):
        starts.append(bench.start_s())
        bench.child().end(1)
        bench.turn()
    assert [after - before for before, after in pairwise(starts)] == pytest.approx(expected, abs=1.01)

    # and a good end makes the next pause the first again
    bench.start_s()
    bench.child().end(0)
    bench.turn()
    bench.task.run_again()
    bench.start_s()
    bench.child().end(1)
    bench.turn()
    failed_s = bench.clock.now_s
    assert bench.start_s() - failed_s == pytest.approx(10, abs=1)


def test_a_task_that_is_not_wanted_is_not_started_and_one_that_runs_is_asked_to_end_once(children: Children) -> None:
    bench = Bench(children)
    assert bench.turn(5, is_wanted=False) is None
    assert bench.starts() == 0
    bench.turn()
    for _ in range(3):
        bench.turn(1, is_wanted=False)
    assert bench.child().asked == ["terminate"]

    # when it ends, then that is no failure, and it comes back at its interval
    bench.child().end(-15)
    assert bench.turn(1) is None
    assert (bench.task.failures, bench.task.is_done) == (0, False)
    ended_s = bench.clock.now_s
    assert bench.start_s() - ended_s == pytest.approx(600, abs=1)


def test_a_task_that_can_t_be_started_is_tried_again(children: Children) -> None:
    bench = Bench(children)
    children.failure = OSError(errno.ENOMEM, "Cannot allocate memory")
    assert bench.turn() == Done(1, (), "it can't be started (Cannot allocate memory)")
    children.failure = None
    failed_s = bench.clock.now_s
    assert bench.start_s() - failed_s == pytest.approx(10, abs=1)
