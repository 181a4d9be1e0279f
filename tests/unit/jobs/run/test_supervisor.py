"""When a part is started, ended and started again."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.output.terminal import WRONG_SETTING
from jobs.run.supervisor import Do, Part, Rhythm, Seen, Step, step

RHYTHM = Rhythm()
READY = Seen(healthy_at_s=0.0, is_ready=True)


class World:
    """A part, its process and a clock. The process ends a second after it was asked to, if it does."""

    def __init__(self) -> None:
        self.part, self.now_s = Part(), 0.0
        self.has_process, self.ends_at_s = False, float("inf")
        self.exit_code = 0
        self.done: list[tuple[float, Do]] = []
        self.said: list[str] = []

    def turn(self, seen: Seen, *, is_deaf: bool = False) -> Step:
        has_ended = self.has_process and self.now_s >= self.ends_at_s
        made = step(self.part, replace(seen, exit_code=self.exit_code if has_ended else None), self.now_s, RHYTHM)
        if has_ended:
            self.has_process, self.ends_at_s = False, float("inf")
        self.part = made.part
        if made.do is not Do.NOTHING:
            self.done.append((self.now_s, made.do))
        if made.say:
            self.said.append(made.say)
        if made.do is Do.START:
            assert not self.has_process, "a second process beside the first"
            self.has_process = True
        elif made.do is Do.KILL or (made.do is Do.TERMINATE and not is_deaf):
            assert self.has_process, "no process to end"
            self.end(-9 if made.do is Do.KILL else 0, after_s=1.0)
        return made

    def end(self, exit_code: int, after_s: float = 0.0) -> None:
        self.ends_at_s = min(self.ends_at_s, self.now_s + after_s)
        self.exit_code = exit_code

    def run(self, seconds: float, seen: Seen, *, answers: bool = True, is_deaf: bool = False) -> None:
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.turn(replace(seen, healthy_at_s=self.now_s) if answers and seen.is_ready else seen, is_deaf=is_deaf)
            self.now_s += 0.5

    def starts(self) -> list[float]:
        return [at for at, do in self.done if do is Do.START]


def test_a_part_that_ends_at_once_is_started_again_after_pauses_that_double_up_to_a_minute() -> None:
    world = World()
    while len(world.starts()) < 9:
        world.turn(Seen())
        if world.has_process:
            world.end(1)
        world.now_s += 0.5
    pauses = [after - before for before, after in pairwise(world.starts())]
    assert pauses == pytest.approx([1, 2, 4, 8, 16, 32, 60, 60], abs=1.01)
    assert world.said[0] == "ended with exit code 1: it is started again in 1 s"


def test_five_minutes_of_health_make_the_next_pause_a_second_again() -> None:
    world = World()
    world.part = Part(ends_in_a_row=6)
    world.run(299, READY)
    world.end(-11)
    world.run(1, READY)
    assert world.said[-1] == "was ended by signal 11: it is started again in 60 s"
    world.run(60, READY)
    world.run(301, READY)
    world.end(1)
    world.run(1, READY)
    assert world.said[-1].endswith("in 1 s")


HANGS = {
    "it never answers": (Seen(), 301, "hangs (no answer for 300 s)"),
    "it stops to answer": (READY, 61, "hangs (no answer for 60 s)"),
    "it says so": (Seen(complaint="the JVM has not answered for 61 s"), 1, "hangs (the JVM has not answered for 61 s)"),
}


@pytest.mark.parametrize("name", HANGS)
def test_a_part_that_hangs_is_killed_and_started_again(name: str) -> None:
    seen, after_s, said = HANGS[name]
    world = World()
    world.run(after_s, seen, answers=False)
    assert world.said == [f"{said}: it is killed and started again"]
    assert [do for _, do in world.done] == [Do.START, Do.KILL]
    world.run(4, Seen())
    assert world.done[-1][1] is Do.START


def test_a_part_that_answers_is_left_alone_for_a_day_even_if_it_is_not_ready() -> None:
    world = World()
    world.run(86_400, replace(READY, is_ready=True))
    assert world.done == [(0.0, Do.START)]
    for _ in range(10_000):
        world.turn(Seen(healthy_at_s=world.now_s))
        world.now_s += 5
    assert world.done == [(0.0, Do.START)]


def test_a_part_that_does_not_end_when_asked_is_killed_in_time() -> None:
    world = World()
    world.run(2, READY)
    world.run(20, replace(READY, is_wanted=False), is_deaf=True)
    (_, first), (asked_s, asked), (killed_s, killed), *more = world.done
    assert (first, asked, killed) == (Do.START, Do.TERMINATE, Do.KILL)
    assert killed_s - asked_s == pytest.approx(RHYTHM.end_s, abs=0.5)
    assert {do for _, do in more} <= {Do.KILL}
    assert not world.has_process
    assert world.said == []


def test_changed_settings_restart_a_part_without_a_pause() -> None:
    world = World()
    world.run(2, READY)
    world.turn(replace(READY, healthy_at_s=world.now_s, is_outdated=True))
    world.run(2, READY)
    assert [do for _, do in world.done] == [Do.START, Do.TERMINATE, Do.START]
    assert world.part.ends_in_a_row == 0


def test_a_wrong_setting_ends_all_but_only_before_the_part_has_worked() -> None:
    world = World()
    world.turn(Seen())
    world.end(WRONG_SETTING)
    assert world.turn(Seen()).do is Do.GIVE_UP

    world = World()
    world.run(2, READY)
    world.end(WRONG_SETTING)
    world.run(5, READY)
    assert [do for _, do in world.done] == [Do.START, Do.START]


def test_a_wrong_setting_is_no_reason_to_end_all_once_an_earlier_process_has_worked() -> None:
    # given a part that was ready, and whose next process has not begun yet
    world = World()
    world.run(2, READY)
    world.end(1)
    world.run(2, Seen())
    assert len(world.starts()) == 2

    # when that one finds a setting wrong
    world.end(WRONG_SETTING)

    # then it is tried again
    assert world.turn(Seen()).do is not Do.GIVE_UP
    world.run(4, Seen())
    assert len(world.starts()) == 3


def test_a_part_that_hangs_again_and_again_is_started_after_pauses_that_double() -> None:
    world = World()
    while len(world.starts()) < 5:
        world.turn(Seen(complaint="it hangs"))
        world.now_s += 0.5
    pauses = [after - before for before, after in pairwise(world.starts())]
    # A process that is killed ends a second later.
    assert pauses == pytest.approx([2, 2.5, 4.5, 8.5], abs=1.01)


def test_only_the_health_of_one_process_counts_not_that_of_several() -> None:
    world = World()
    for said in ("1 s", "2 s", "4 s"):
        world.run(200, READY)
        world.end(1)
        world.run(1, READY)
        assert world.said[-1].endswith(f"again in {said}")
        world.run(5, READY)


HAPPENINGS = st.sampled_from(["pass", "end", "wrong", "answer", "silent", "complain", "unwanted", "outdated"])


@given(st.lists(st.tuples(HAPPENINGS, st.floats(0.1, 90)), max_size=60))
def test_whatever_happens_there_is_one_process_and_it_is_started_no_sooner_than_its_pause(
    happenings: list[tuple[str, float]],
) -> None:
    world, healthy_at_s = World(), None
    for what, seconds in happenings:
        if what in ("end", "wrong") and world.has_process:
            world.end(1 if what == "end" else WRONG_SETTING)
        if what == "answer" and world.has_process:
            healthy_at_s = world.now_s
        seen = Seen(
            healthy_at_s=healthy_at_s if world.has_process else None,
            complaint="it hangs" if what == "complain" else "",
            is_ready=what == "answer",
            is_wanted=what != "unwanted",
            is_outdated=what == "outdated",
        )
        before = world.part
        made = world.turn(seen)
        if made.do is Do.START:
            assert world.now_s >= before.not_before_s
            healthy_at_s = None
        if made.do is Do.GIVE_UP:
            return
        world.now_s += seconds
    # and it runs again once it is wanted and nothing happens
    for _ in rest(world):
        world.turn(Seen(healthy_at_s=world.now_s, is_ready=True))
    assert world.has_process


def rest(world: World) -> Iterator[None]:
    end_s = world.now_s + RHYTHM.max_pause_s + RHYTHM.end_s + 10
    while world.now_s < end_s:
        yield
        world.now_s += 1
