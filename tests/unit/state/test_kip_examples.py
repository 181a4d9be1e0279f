"""The examples of KIP-936's own text."""

import pytest

from quota.limits import Limit
from state.events import Deployment, Outcome
from state.ledger import Ledger
from tests.kits.ledger_kit import actions, events_at

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


def test_100_pids_per_hour_lets_101_through_at_once_and_never_more_than_201_in_any_hour() -> None:
    admitted = admitted_by_second(seconds=3 * 3600, new_pids_per_second=3)

    assert sum(admitted[:60]) == 102
    in_any_hour = [sum(admitted[begin : begin + 3600]) for begin in range(2 * 3600)]
    assert max(in_any_hour) <= 201
    assert sum(admitted[-3600:]) == 100


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
