"""The wait for a running stream's end notices that the wall clock of its host goes back."""

import time
from collections.abc import Sequence

import pytest

from jobs.stream.running import await_step_back


@pytest.mark.parametrize(
    ("steps_s", "polls", "back_s"),
    [((0.0, 0.0), 3, 0.0), ((3600.0, 0.0), 3, 0.0), ((0.0, -3600.0), 2, 3600.0), ((-4.0, -4.0), 3, 0.0)],
)
def test_a_step_back_ends_the_wait_and_other_steps_do_not(
    monkeypatch: pytest.MonkeyPatch, steps_s: Sequence[float], polls: int, back_s: float
) -> None:
    wall_s, asked = [1e9], [0]
    monkeypatch.setattr(time, "time", lambda: wall_s[0])
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)

    def has_ended() -> bool:
        asked[0] += 1
        if asked[0] > len(steps_s):
            return True
        wall_s[0] += steps_s[asked[0] - 1]
        return False

    assert await_step_back(has_ended) == back_s
    assert asked[0] == polls
