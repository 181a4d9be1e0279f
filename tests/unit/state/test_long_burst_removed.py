"""A quota whose burst takes longer than a window to refill, removed and set again: no way to a full bucket."""

import pytest

from quota.config import QuotaConfig
from quota.limits import UNLIMITED, Limit
from state.events import Deployment
from state.ledger import Ledger
from tests.kits.ledger_kit import Principal

HOUR_MS = 3_600_000
QUARTER_MS = HOUR_MS // 4
START_MS = 1_790_000_000_000 // HOUR_MS * HOUR_MS
BURST_OF_ALL, BURST_OF_USER = (60.0, None), (1.0, 600.0)


@pytest.mark.parametrize(("windows", "burst"), [BURST_OF_ALL, BURST_OF_USER])
@pytest.mark.parametrize("hours", [1, 2, 10])
@pytest.mark.parametrize("writes_between", [True, False])
def test_an_empty_bucket_that_refills_in_60_windows_gets_tokens_by_the_rate_alone(
    windows: float, burst: float | None, hours: int, *, writes_between: bool
) -> None:
    # Given a principal that owes 10 tokens of 10 an hour.
    limit = Limit(10.0, "user", 1, burst)
    principal = Principal(Deployment(QuotaConfig(burst_windows=windows), 0, 0), START_MS, limit)
    assert principal.produces(range(1000), 0).metrics[-1].tokens == -10.0

    # When its quota is removed, and set again after some windows.
    if writes_between:
        principal.produces([1000], QUARTER_MS, UNLIMITED)
    back_ms = hours * HOUR_MS
    ledger = Ledger("User:mallory", principal.deployment, principal.stored)
    assert ledger.expires_ms() > START_MS + back_ms
    (row,) = principal.produces([1001], back_ms).metrics[-1:]

    # Then it has what these hours add, less the token of the new PID.
    assert row.tokens == -10.0 + 10.0 * hours - 1
