"""Forecasts for days that repeat: what a broker holds a day later, and on average."""

from collections.abc import Iterator

import numpy as np
import pytest

from lifecycle.forecast import Outlook
from lifecycle.occupancy import Census, ReplicaProducers, owners_of
from lifecycle.occupancy_rate import rates_of

HOUR = 3_600_000
NOW = 1_000 * 24 * HOUR
CHECK_H = 1 / 6
KNOWN_H = 72
PODS = 200

Spans = list[tuple[float, float]]
"""First and last use of each id, in hours of its day."""


def office() -> Spans:
    """Clients that open a producer in the morning and close it in the evening."""
    return [(9 + n / PODS, 18 - n / PODS) for n in range(PODS)]


def sessions() -> Spans:
    """Producers of half an hour each, during working hours."""
    return [(9 + 9 * n / 540, 9.5 + 9 * n / 540) for n in range(540)]


def night_batch() -> Spans:
    return [(2 + n / 4000, 3 + n / 4000) for n in range(PODS)]


def deploys(per_day: int) -> Spans:
    gap = 24 / per_day
    return [(gap * deploy + 0.15 * pod / PODS, gap * (deploy + 1) + 0.15 * pod / PODS)
            for deploy in range(per_day) for pod in range(PODS)]  # fmt: skip


def one_deploy() -> Spans:
    return deploys(1)


def three_deploys() -> Spans:
    return deploys(3)


def every_day(day: Spans, hour: float) -> Iterator[tuple[float, float]]:
    """First and last use of the ids of five days before and three days after, in hours from `hour` of today."""
    for number in range(-5, 4):
        yield from ((24 * number + begin - hour, 24 * number + end - hour) for begin, end in day)


def held(ids: list[tuple[float, float]], at_h: float) -> int:
    return sum(begin <= at_h and min(end, at_h) > at_h - 24 - CHECK_H / 2 for begin, end in ids)


def census_of(ids: list[tuple[float, float]]) -> Census:
    used = [(pid, begin, max(begin, min(end, -0.01))) for pid, (begin, end) in enumerate(ids) if begin <= 0]
    kept = [(pid, begin, last) for pid, begin, last in used if last > -24 - CHECK_H / 2]
    replica = ReplicaProducers(
        1,
        "orders",
        0,
        True,
        np.array([pid for pid, _, _ in kept], np.int64),
        np.array([round(NOW + last * HOUR) for _, _, last in kept], np.int64),
        np.zeros(len(kept), np.bool_),
    )
    bound = {pid: ("User:a", round(NOW + begin * HOUR)) for pid, begin, _ in kept if begin > -KNOWN_H}
    since_ms = round(NOW + min((begin for _, begin, _ in used if begin > -KNOWN_H), default=0) * HOUR)
    return Census(NOW, (replica,), (), owners_of((replica,), bound, since_ms), {1: 24 * HOUR})


@pytest.mark.parametrize(
    ("day", "hour"),
    [
        *((office, hour) for hour in (8.5, 12.5, 18.5, 23)),
        *((sessions, hour) for hour in (8.5, 10, 12.5, 15, 17.5, 18, 18.5, 21, 23)),
        *((night_batch, hour) for hour in (1.9, 2.5, 4, 12, 20)),
        *((one_deploy, hour) for hour in (0.05, 0.1, 1, 12, 23.5)),
        *((three_deploys, hour) for hour in (1, 5, 12.5)),
    ],
    ids=lambda each: each if isinstance(each, float | int) else each.__name__,
)
def test_a_forecast_for_days_that_repeat_is_within_a_tenth(day: object, hour: float) -> None:
    assert callable(day)
    ids = list(every_day(day(), hour))
    census = census_of(ids)

    rates = rates_of(census, 1)
    outlook = Outlook(census, 1, rates.today)

    assert outlook.held_in(24 * HOUR) == pytest.approx(held(ids, 24), rel=0.1)
    if day in (office, sessions):
        # What comes at the same time each day is no flood.
        assert rates.likeliest_first[0] is rates.today
    mean = np.mean([held(ids, 24 + half / 2) for half in range(48)])
    assert outlook.settles_at == pytest.approx(mean, rel=0.1)


def test_ids_that_pause_every_night_stay_in_use() -> None:
    ids = [(-60.0 + pod / 1000, -9.0) for pod in range(PODS)]
    census = census_of(ids)
    outlook = Outlook(census, 1, rates_of(census, 1).today)
    assert outlook.held_in(24 * HOUR) == PODS
