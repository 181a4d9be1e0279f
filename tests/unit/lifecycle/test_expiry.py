"""How long a broker remembers a producer: the rule's edges, and the model of a partition's map."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifecycle.expiry import CHECK_INTERVAL_MS, expired
from tests.kits.expiry_kit import DEFAULT_EXPIRATION_MS, PartitionProducers, is_expired

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = DEFAULT_EXPIRATION_MS


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
    assert is_expired(-idle_ms, in_transaction, 0, DAY) is gone
    assert expired(np.array([-idle_ms]), np.array([in_transaction]), 0, DAY).tolist() == [gone]


def test_the_broker_looks_every_ten_minutes_only() -> None:
    partition = PartitionProducers(loaded_at_ms=0)
    partition.append(7, 3 * MINUTE)

    assert partition.advance(DAY + 9 * MINUTE) == []
    assert 7 in partition
    assert partition.advance(DAY + 10 * MINUTE) == [7]
    assert len(partition) == 0


def test_a_batch_makes_a_producer_young_again() -> None:
    partition = PartitionProducers(loaded_at_ms=0, expiration_ms=HOUR)
    partition.append(1, 0)
    partition.append(2, 0)
    partition.append(1, 50 * MINUTE)

    assert partition.advance(60 * MINUTE) == [2]
    assert partition.advance(100 * MINUTE) == []
    assert partition.advance(110 * MINUTE) == [1]


def test_an_open_transaction_keeps_a_producer_and_its_end_begins_its_age_anew() -> None:
    partition = PartitionProducers(loaded_at_ms=0, expiration_ms=HOUR)
    partition.append(1, 0, transactional=True)

    assert partition.forgotten_at_ms(1) is None
    assert partition.advance(20 * HOUR) == []
    partition.end_transaction(1, 20 * HOUR)
    assert partition.forgotten_at_ms(1) == 21 * HOUR
    assert partition.advance(21 * HOUR) == [1]


def test_a_lower_expiration_bites_at_the_next_check_and_a_higher_one_keeps_what_is_there() -> None:
    partition = PartitionProducers(loaded_at_ms=0)
    partition.append(1, 0)
    partition.append(2, 5 * HOUR)
    partition.advance(6 * HOUR)

    partition.expiration_ms = 2 * HOUR
    assert partition.advance(6 * HOUR + CHECK_INTERVAL_MS) == [1]
    partition.expiration_ms = 7 * DAY
    assert partition.advance(6 * DAY) == []


@given(
    loaded_ms=st.integers(0, CHECK_INTERVAL_MS),
    last_ms=st.integers(0, 3 * HOUR),
    expiration_ms=st.integers(1, 3 * HOUR),
    steps=st.lists(st.integers(1, HOUR), max_size=20),
)
def test_a_silent_producer_goes_exactly_when_foretold_however_often_one_looks(
    loaded_ms: int, last_ms: int, expiration_ms: int, steps: list[int]
) -> None:
    partition = PartitionProducers(loaded_ms, expiration_ms)
    partition.append(1, last_ms)
    foretold_ms = partition.forgotten_at_ms(1)
    assert foretold_ms is not None

    now_ms = loaded_ms
    for step in steps:
        now_ms += step
        partition.advance(now_ms)
        assert (1 in partition) is (now_ms < foretold_ms)
    # Late by less than a check, never early.
    assert foretold_ms - CHECK_INTERVAL_MS < max(last_ms + expiration_ms, loaded_ms + CHECK_INTERVAL_MS) <= foretold_ms
