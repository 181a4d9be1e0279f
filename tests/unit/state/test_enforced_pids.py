"""New PIDs that enter brokers per hour under holds: clients, the ledger and holds in a closed loop."""

import random
from dataclasses import dataclass, field
from math import inf

import pytest

from quota.limits import Limit
from state.events import Deployment
from tests.kits.ledger_kit import Principal

HOUR_S = 3600.0
START_MS = 1_790_000_000_000 // 3_600_000 * 3_600_000
LATENCY_S = 0.9
"""Time from a refused PID to the hold that its decision asks for."""
PARALLEL = 100
"""Clients that wait at once, and that come in together when a hold without a pace ends."""


@dataclass
class Hold:
    """A hold on one user. Times are seconds since the first hour began."""

    pace_s: float = inf
    begins_at: float = inf
    ends_at: float = 0.0
    lets_in_at: float = inf

    def is_in_force(self, now: float) -> bool:
        return self.begins_at <= now < self.ends_at

    def is_over(self, now: float) -> bool:
        return self.begins_at < inf and now >= self.ends_at

    def decided(self, now: float, until: float) -> None:
        self.ends_at = until
        if self.begins_at == inf:
            self.begins_at = now + LATENCY_S
            self.lets_in_at = self.begins_at + self.pace_s

    def let_one_in(self, now: float) -> None:
        self.lets_in_at = now + self.pace_s


@dataclass
class Loop:
    """Clients that want a new PID at random moments, in `wanted` an hour."""

    quota: float
    hold: Hold
    hours: int = 4
    waiting: int = 0
    next_pid: int = 0
    entered: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ledger = Principal(Deployment(salt=11), START_MS, Limit(self.quota, "user"))
        self.entered = [0] * self.hours

    def runs(self, wanted: float) -> list[int]:
        """Return how many PIDs entered in each hour."""
        chance, hold, now = random.Random(1), self.hold, 0.0
        arrival = chance.expovariate(wanted / HOUR_S)
        while (now := min(each for each in self._moments(arrival) if each > now)) < self.hours * HOUR_S:
            if hold.is_over(now):
                self._end_hold(now)
            if hold.is_in_force(now) and self.waiting and now >= hold.lets_in_at:
                self.waiting -= 1
                hold.let_one_in(now)
                self._enter(now)
            if now >= arrival:
                arrival = now + chance.expovariate(wanted / HOUR_S)
                if not hold.is_in_force(now):
                    self._enter(now)
                elif self.waiting < PARALLEL:
                    self.waiting += 1
                else:
                    # Nobody is left who could want a PID before the next moment of the hold.
                    arrival += max(0.0, min(hold.ends_at, hold.lets_in_at) - arrival)
        return self.entered

    def _moments(self, arrival: float) -> list[float]:
        hold = self.hold
        if hold.begins_at == inf:
            return [arrival]
        return [arrival, hold.begins_at, hold.ends_at, *([hold.lets_in_at] if self.waiting else [])]

    def _end_hold(self, now: float) -> None:
        """End a hold: all that wait come in at once."""
        self.hold.begins_at = inf
        herd, self.waiting = self.waiting, 0
        for _ in range(herd):
            self._enter(now)

    def _enter(self, now: float) -> None:
        self.entered[int(now // HOUR_S)] += 1
        self.next_pid += 1
        outcome = self.ledger.produces([self.next_pid], int(now * 1000))
        for decision in outcome.decisions:
            until = (decision.throttled_until_ms - START_MS) / 1000
            if decision.action == "THROTTLE":
                self.hold.decided(now, until)


@pytest.mark.parametrize(
    ("wanted", "quota", "without_pace", "with_pace"),
    [
        (400, 100, [251, 100, 100, 100], [211, 100, 100, 100]),
        (738 * 3600, 100, [1516, 1580, 811, 716], [866, 100, 100, 100]),
        (200_000, 1000, [2138, 1057, 1011, 915], [2072, 1000, 1000, 1000]),
    ],
)
def test_a_user_over_its_quota_gets_its_quota_under_holds(
    wanted: float, quota: float, without_pace: list[int], with_pace: list[int]
) -> None:
    # The numbers are those of a simulation without ticks and without a ledger.
    assert Loop(quota, Hold(HOUR_S / quota)).runs(wanted) == pytest.approx(with_pace, rel=0.1)
    for entered, simulated in zip(Loop(quota, Hold()).runs(wanted), without_pace, strict=True):
        # A hold may end shortly before the end of an hour or shortly after it.
        assert entered == pytest.approx(simulated, abs=0.1 * simulated + PARALLEL)
