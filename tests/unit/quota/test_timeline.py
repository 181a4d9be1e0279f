from hypothesis import given
from hypothesis import strategies as st

from quota.config import TICKS_PER_QUANTUM
from quota.timeline import Timeline

QUANTA = st.integers(TICKS_PER_QUANTUM, 10**8)
TIMES = st.integers(0, 4 * 10**12)


@given(quantum_ms=QUANTA, time_ms=TIMES)
def test_every_moment_lies_in_its_tick(quantum_ms: int, time_ms: int) -> None:
    line = Timeline(quantum_ms)
    tick = line.tick(time_ms)

    assert line.tick_start_ms(tick) <= time_ms < line.tick_start_ms(tick + 1)


@given(quantum_ms=QUANTA, time_ms=TIMES)
def test_a_tick_never_straddles_two_quanta(quantum_ms: int, time_ms: int) -> None:
    line = Timeline(quantum_ms)

    assert line.quantum(line.tick(time_ms)) == time_ms // quantum_ms
