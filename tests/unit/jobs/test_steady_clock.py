"""The clock of those who wait for signs of life."""

import pytest

from jobs.services.steady_clock import SteadyClock


def test_time_goes_on_turn_by_turn_and_stands_still_while_nobody_turns() -> None:
    real_s = [100.0]
    clock = SteadyClock(lambda: real_s[0])
    for _ in range(50):
        real_s[0] += 0.2
        clock.tick()
    assert clock.now_s == pytest.approx(10)
    # when this process was stopped for ten minutes
    real_s[0] += 600
    assert clock.silent_s() == pytest.approx(600)
    assert clock.tick() == pytest.approx(15)
    assert clock.silent_s() == 0
