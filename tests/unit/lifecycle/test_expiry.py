"""How long a broker remembers a producer."""

import numpy as np
import pytest

from lifecycle.expiry import expired

HOUR = 3_600_000
DAY = 24 * HOUR


@pytest.mark.parametrize(
    ("idle_ms", "in_transaction", "gone"),
    [
        (DAY - 1, False, False),
        (DAY, False, True),
        (DAY + 1, False, True),
        (100 * DAY, True, False),
        (-HOUR, False, False),
    ],
)
def test_a_producer_expires_at_the_full_time_unless_its_transaction_is_open(
    idle_ms: int, in_transaction: bool, gone: bool
) -> None:
    assert expired(np.array([-idle_ms]), np.array([in_transaction]), 0, DAY).tolist() == [gone]
