"""A year of weekly deploys through the ledger: what a burst of its own lets pass, and how soon it stops a leak."""

import pytest

from quota.limits import Limit
from state.events import CHARGED, Deployment, Events
from state.ledger import Ledger

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
START_MS = 1_790_000_000_000 // HOUR_MS * HOUR_MS
RATE_ALONE, WITH_BURST = Limit(10.0, "user"), Limit(10.0, "user", producer_ids_burst=600.0)


class Fleet:
    """A principal whose producers are all new; its ledger is stored and read back between batches."""

    def __init__(self, limit: Limit) -> None:
        self.limit, self.pids, self.refused = limit, 0, 0
        self.stored: bytes | None = None

    def starts(self, producers: int, at_ms: int) -> bool:
        """Start producers at once; return whether the principal is throttled for it."""
        pids = list(range(self.pids, self.pids + producers))
        self.pids += producers
        ledger = Ledger("User:pods", DEPLOYMENT, self.stored)
        events = Events(pids, [START_MS + at_ms] * producers, [("app", "")] * producers, [CHARGED] * producers)
        outcome = ledger.process(events, self.limit)
        self.stored = outcome.content
        self.refused += sum(row.refused_pids for row in outcome.metrics)
        return any(decision.action == "THROTTLE" for decision in outcome.decisions)


DEPLOYMENT = Deployment(salt=7)


@pytest.mark.parametrize(("limit", "refused", "throttles"), [(WITH_BURST, 0, 0), (RATE_ALONE, 52 * (500 - 11), 52)])
def test_a_year_of_weekly_deploys_passes_with_a_burst_and_not_by_the_rate_alone(
    limit: Limit, refused: int, throttles: int
) -> None:
    fleet = Fleet(limit)

    throttled = sum(fleet.starts(500 if hour % 168 == 167 else 5, hour * HOUR_MS) for hour in range(52 * 168))

    # Those refused are counted by a sketch, to within 3 %.
    assert fleet.refused == pytest.approx(refused, rel=0.03)
    assert throttled == throttles


def test_a_leak_is_throttled_within_minutes_although_the_burst_lets_a_deploy_pass() -> None:
    fleet = Fleet(WITH_BURST)
    fleet.starts(1, 0)

    minutes = next(minute for minute in range(1, 60) if fleet.starts(100, HOUR_MS + minute * MINUTE_MS))

    assert minutes == 7
