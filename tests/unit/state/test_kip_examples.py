"""The examples of KIP-936's own text."""

import pytest

from quota.limits import Limit
from state.events import Deployment, Outcome
from state.ledger import Ledger
from tests.kits.ledger_kit import actions, events_at, refused

SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
START_MS = 1_790_002_800_000
HUNDRED_PER_HOUR = Limit(100.0, "user")


def produce(ledger: Ledger, pids: list[int], at_ms: int) -> Outcome:
    return ledger.process(events_at(START_MS + at_ms, pids), HUNDRED_PER_HOUR)


def admitted_by_second(seconds: int, new_pids_per_second: int) -> list[int]:
    """Return how many PIDs of a flood are admitted in each second."""
    ledger, before, admitted = Ledger("User:A", Deployment(salt=11)), (0, 0), []
    for second in range(seconds):
        first = 10**6 + second * new_pids_per_second
        outcome = produce(ledger, list(range(first, first + new_pids_per_second)), second * SECOND_MS)
        count = 0
        for row in outcome.metrics:
            same_interval = row.window_end_ms == before[0]
            count += row.admitted_pids - (before[1] if same_interval else 0)
            before = (row.window_end_ms, row.admitted_pids)
        admitted.append(count)
    return admitted


def test_a_flood_on_100_pids_per_hour_gets_101_and_no_more_while_it_lasts() -> None:
    admitted = admitted_by_second(seconds=4000, new_pids_per_second=3)

    # Refused PIDs take the tokens that come back.
    assert (sum(admitted[:60]), sum(admitted[60:])) == (101, 0)


def test_100_pids_per_hour_let_a_burst_of_100_and_then_one_every_36_seconds_through() -> None:
    ledger = Ledger("User:A", Deployment(salt=11))

    outcomes = [produce(ledger, list(range(100)), 0)]
    outcomes += [produce(ledger, [10**6 + number], number * 36 * SECOND_MS) for number in range(1, 101)]

    assert sum(map(refused, outcomes)) == 0
    assert outcomes[-1].metrics[-1].active_pids == 200


@pytest.mark.parametrize(
    ("client", "messages", "pause_ms"),
    [
        ("restart loop", 400, 10 * SECOND_MS),
        ("producer per error", 600, 5 * SECOND_MS),
        ("producer per batch", 5000, 100),
    ],
)
def test_the_three_bad_clients_are_throttled_and_a_good_one_beside_them_is_not(
    client: str, messages: int, pause_ms: int
) -> None:
    bad, good = Ledger(f"User:{client}", Deployment(salt=11)), Ledger("User:good", Deployment(salt=11))
    bad_actions, good_actions = [], []
    for number in range(messages):
        at_ms = number * pause_ms
        bad_actions += actions(produce(bad, [10**6 + number], at_ms))
        good_actions += actions(produce(good, [number % 3], at_ms))

    assert "THROTTLE" in bad_actions
    assert good_actions == []


def test_the_average_throttle_time_counts_each_tick_with_a_refused_pid_once() -> None:
    ledger = Ledger("User:A", Deployment(salt=11))

    produce(ledger, list(range(102)), 0)
    outcome = produce(ledger, [200, 200], 10 * SECOND_MS)

    # Two tokens are owed, then three but for what ten seconds brought back; a token comes every 36 seconds.
    assert outcome.metrics[-1].throttle_time_avg_ms == (2 * 36_000 + (3 * 36_000 - 10_000)) / 2
