"""A year of weekly deploys through the ledger: what a burst of its own lets pass, and how soon it stops a leak."""

from dataclasses import dataclass

import pytest

from quota.limits import Limit
from state.events import Deployment
from tests.kits.ledger_kit import Principal, actions, refused

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
START_MS = 1_790_000_000_000 // HOUR_MS * HOUR_MS
RATE_ALONE, WITH_BURST = Limit(10.0, "user"), Limit(10.0, "user", producer_ids_burst=600.0)


DEPLOYMENT = Deployment(salt=7)


@dataclass
class Fleet(Principal):
    """A principal whose producers are all new."""

    pids: int = 0
    refused: int = 0

    def starts(self, producers: int, at_ms: int) -> bool:
        outcome = self.produces(range(self.pids, self.pids + producers), at_ms)
        self.pids += producers
        self.refused += refused(outcome)
        return "THROTTLE" in actions(outcome)


@pytest.mark.parametrize(
    ("limit", "refused", "throttled_hours"),
    [
        (WITH_BURST, 0, 0),
        # An hour after a deploy, the bucket is just empty again. The last hour has no next one.
        (RATE_ALONE, 52 * (500 - 11) + 51 * 4, 52 + 51),
    ],
)
def test_a_year_of_weekly_deploys_passes_with_a_burst_and_not_by_the_rate_alone(
    limit: Limit, refused: int, throttled_hours: int
) -> None:
    fleet = Fleet(DEPLOYMENT, START_MS, limit)

    throttled = sum(fleet.starts(500 if hour % 168 == 167 else 5, hour * HOUR_MS) for hour in range(52 * 168))

    # Those refused are counted by a sketch, to within 3 %.
    assert fleet.refused == pytest.approx(refused, rel=0.03)
    assert throttled == throttled_hours


def test_a_leak_is_throttled_within_minutes_although_the_burst_lets_a_deploy_pass() -> None:
    fleet = Fleet(DEPLOYMENT, START_MS, WITH_BURST)
    fleet.starts(1, 0)

    minutes = next(minute for minute in range(1, 60) if fleet.starts(100, HOUR_MS + minute * MINUTE_MS))

    assert minutes == 7
