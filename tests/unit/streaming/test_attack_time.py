"""Clocks that jump, events late, twice or out of order: no quota begins anew, and nobody good is throttled."""

from hypothesis import given
from hypothesis import strategies as st

from quota.limits import Limit
from state.events import CHARGED, LEARNING, Deployment, Events, Outcome
from state.ledger import Ledger

NOW_MS = 1_790_000_000_000
MINUTE_MS, HOUR_MS, YEAR_MS = 60_000, 3_600_000, 365 * 24 * 3_600_000
DEPLOYMENT = Deployment(salt=3)
QUOTA = 10
LIMIT = Limit(float(QUOTA), "default")
BURST = QUOTA + 1

Step = tuple[int, int]
"""A PID and its time, in ms after `NOW_MS`."""


def run(ledger: Ledger, steps: list[Step], kind: int = CHARGED) -> Outcome:
    pids, times = [pid for pid, _ in steps], [NOW_MS + at_ms for _, at_ms in steps]
    return ledger.process(Events(pids, times, [("", "")] * len(pids), [kind] * len(pids)), LIMIT)


def admitted(outcome: Outcome) -> int:
    """Counts are cumulative within an interval: the last row of each holds."""
    return sum({row.window_end_ms: row.admitted_pids for row in outcome.metrics}.values())


def flood(first_pid: int, at_ms: int, count: int = 50) -> list[Step]:
    return [(first_pid + number, at_ms) for number in range(count)]


JUMPS = st.sampled_from([0, 0, 0, 1000, 20_000, -20_000, 7 * MINUTE_MS, -7 * MINUTE_MS, 3 * HOUR_MS, -3 * HOUR_MS])


@given(jumps=st.lists(st.tuples(st.integers(0, QUOTA - 1), JUMPS), max_size=120))
def test_a_principal_with_no_more_pids_than_its_quota_is_never_throttled_whatever_the_clock_does(
    jumps: list[tuple[int, int]],
) -> None:
    steps, at_ms = [], 0
    for pid, jump_ms in jumps:
        at_ms += jump_ms
        steps += [(pid, at_ms), (pid, at_ms)]

    assert run(Ledger("User:good", DEPLOYMENT), steps).decisions == ()


@given(jumps=st.lists(st.tuples(st.integers(0, 10**9), JUMPS), max_size=150))
def test_no_jump_of_the_clock_gives_more_than_the_burst_and_what_the_time_that_has_come_gives_back(
    jumps: list[tuple[int, int]],
) -> None:
    steps, at_ms = [], 0
    for pid, jump_ms in jumps:
        at_ms += jump_ms
        steps += flood(pid, at_ms, 3)
    times = [at_ms for _, at_ms in steps] or [0]

    charged = admitted(run(Ledger("User:loop", DEPLOYMENT), steps))

    # A late PID costs nothing, and is not counted as admitted either.
    assert charged <= BURST + QUOTA * (max(times) - times[0] + MINUTE_MS) / HOUR_MS


def test_a_clock_that_goes_back_three_hours_gives_no_token_back() -> None:
    jumped, steady = Ledger("User:loop", DEPLOYMENT), Ledger("User:loop", DEPLOYMENT)
    for ledger in (jumped, steady):
        run(ledger, flood(0, 0))
    back = run(jumped, flood(1000, -3 * HOUR_MS))

    after_jump, after_none = (run(ledger, flood(2000, MINUTE_MS)) for ledger in (jumped, steady))

    assert (back.metrics[-1].late_pids, back.decisions) == (50, ())
    assert after_jump.metrics[-1].tokens == after_none.metrics[-1].tokens
    assert admitted(after_jump) == admitted(after_none) == 0


def test_pids_in_use_stay_known_while_the_clock_is_back_and_when_it_has_returned() -> None:
    ledger = Ledger("User:good", DEPLOYMENT)
    run(ledger, flood(0, 0, 500), LEARNING)

    outcomes = [run(ledger, flood(0, at_ms, 500)) for at_ms in (-3 * HOUR_MS, -HOUR_MS, -MINUTE_MS, 0, MINUTE_MS)]

    assert [outcome.decisions for outcome in outcomes] == [()] * 5
    assert [admitted(outcome) for outcome in outcomes] == [0] * 5


def test_a_first_event_from_years_ago_is_worth_no_more_than_one_burst_now() -> None:
    ledger = Ledger("User:loop", DEPLOYMENT)
    run(ledger, [(1, -3 * YEAR_MS)])

    assert admitted(run(ledger, flood(100, 0))) == BURST
