"""Decides when a part is started, ended and started again: a state machine without processes, and without a clock.

A part **waits** to be started, **runs**, or **ends** after it was asked to. `step` takes what was seen of its process
and returns what to do.
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Literal

from jobs.output.terminal import WRONG_SETTING


@dataclass(frozen=True)
class Rhythm:
    """The times of a part, in seconds.

    Attributes:
        first_pause_s: pause before a part that has ended is started again. It doubles with each end in a row.
        healthy_s: a part that was ready for this long has the first pause again.
        begin_s: a part gives its first healthy answer within this time, or it hangs.
        silent_s: a part gives healthy answers at least this often, or it hangs.
        end_s: a part that was asked to end is killed after this time.
        end_of_start_s: the same for a part that was never ready, as it has done nothing that it has to finish.
    """

    first_pause_s: float = 1.0
    max_pause_s: float = 60.0
    healthy_s: float = 300.0
    begin_s: float = 300.0
    silent_s: float = 60.0
    end_s: float = 12.0
    end_of_start_s: float = 3.0


class Do(Enum):
    """What to do with a part's process."""

    NOTHING = "nothing"
    START = "start"
    TERMINATE = "terminate"
    KILL = "kill"
    GIVE_UP = "give up"
    """The part can't run, and no restart helps."""


@dataclass(frozen=True)
class Seen:
    """What was seen of a part's process.

    Attributes:
        exit_code: the exit code, once the process has ended.
        healthy_at_s: when this process gave its newest healthy answer; None if it gave none.
        complaint: what the process itself says is wrong and needs a restart.
        is_ready: whether the process does its work now.
        is_wanted: whether the part may run now.
        is_outdated: whether the process runs with settings that have been replaced since.
    """

    exit_code: int | None = None
    healthy_at_s: float | None = None
    complaint: str = ""
    is_ready: bool = False
    is_wanted: bool = True
    is_outdated: bool = False


@dataclass(frozen=True)
class Part:
    """The state of a part.

    Attributes:
        since_s: when the phase began.
        not_before_s: a part that waits is not started before this time.
        ends_in_a_row: number of ends that nobody asked for, without five minutes of health in between.
        ready_since_s: when this process was ready first.
        is_proven: whether a process of the part was ever ready, so that its settings are right.
        starts: number of starts so far.
    """

    phase: Literal["waits", "runs", "ends"] = "waits"
    since_s: float = 0.0
    not_before_s: float = 0.0
    ends_in_a_row: int = 0
    ready_since_s: float | None = None
    is_proven: bool = False
    starts: int = 0

    @property
    def restarts(self) -> int:
        """The number of starts after the first."""
        return max(0, self.starts - 1)


@dataclass(frozen=True)
class Step:
    """A part's next state, what to do, and a line to print unless it is empty."""

    part: Part
    do: Do = Do.NOTHING
    say: str = ""


def step(part: Part, seen: Seen, now_s: float, rhythm: Rhythm) -> Step:
    """Return the next state of a part."""
    if part.phase == "waits":
        if not seen.is_wanted or now_s < part.not_before_s:
            return Step(part)
        started = Part("runs", now_s, 0.0, part.ends_in_a_row, None, part.is_proven, part.starts + 1)
        return Step(started, Do.START)
    if seen.is_ready and part.ready_since_s is None:
        part = replace(part, ready_since_s=now_s, is_proven=True)
    if part.phase == "ends":
        return _step_of_end(part, seen, now_s, rhythm)
    if seen.exit_code is not None:
        return _after_end(part, seen, now_s, rhythm)
    asked = replace(part, phase="ends", since_s=now_s)
    if not seen.is_wanted:
        return Step(asked, Do.TERMINATE)
    if hang := _hang(part, seen, now_s, rhythm):
        return Step(_counted(asked, now_s, rhythm), Do.KILL, f"hangs ({hang}): it is killed and started again")
    if seen.is_outdated:
        return Step(asked, Do.TERMINATE, "is started again, because a file of its settings has changed")
    return Step(part)


def _step_of_end(part: Part, seen: Seen, now_s: float, rhythm: Rhythm) -> Step:
    if seen.exit_code is not None:
        return Step(replace(part, phase="waits", since_s=now_s))
    most_s = rhythm.end_of_start_s if part.ready_since_s is None else rhythm.end_s
    return Step(part, Do.KILL if now_s - part.since_s >= most_s else Do.NOTHING)


def _after_end(part: Part, seen: Seen, now_s: float, rhythm: Rhythm) -> Step:
    """Return the step after an end that nobody asked for."""
    ended = replace(_counted(part, now_s, rhythm), phase="waits", since_s=now_s)
    if not seen.is_wanted:
        return Step(ended)
    if seen.exit_code == WRONG_SETTING and not part.is_proven:
        return Step(ended, Do.GIVE_UP)
    pause_s = ended.not_before_s - now_s
    return Step(ended, say=f"{_how(seen.exit_code or 0)}: it is started again in {pause_s:.0f} s")


def _counted(part: Part, now_s: float, rhythm: Rhythm) -> Part:
    """Return a part whose end counts, and which is not started before its pause is over."""
    was_healthy = part.ready_since_s is not None and now_s - part.ready_since_s >= rhythm.healthy_s
    before = 0 if was_healthy else part.ends_in_a_row
    # The exponent has a bound, because a float has one.
    pause_s = min(rhythm.max_pause_s, rhythm.first_pause_s * 2.0 ** min(before, 32))
    return replace(part, ends_in_a_row=before + 1, not_before_s=now_s + pause_s)


def _hang(part: Part, seen: Seen, now_s: float, rhythm: Rhythm) -> str:
    """Return why a process hangs, or an empty text."""
    if seen.complaint:
        return seen.complaint
    if seen.healthy_at_s is None:
        silent_s, most_s = now_s - part.since_s, rhythm.begin_s
    else:
        silent_s, most_s = now_s - seen.healthy_at_s, rhythm.silent_s
    return f"no answer for {silent_s:.0f} s" if silent_s >= most_s else ""


def _how(exit_code: int) -> str:
    if exit_code < 0:
        return f"was ended by signal {-exit_code}"
    return f"ended with exit code {exit_code}"
