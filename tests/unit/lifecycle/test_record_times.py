"""What the times in records do to expiry, and transactions that are open for too long."""

from lifecycle.record_times import HangingTransaction, RecordTimes, hanging_transactions, odd_record_times
from tests.unit.lifecycle.test_occupancy import DAY, HOUR, MINUTE, NOW, census, replica


def test_topics_with_records_of_another_time_than_their_use_are_named() -> None:
    # given a replay of old records, a device with a wrong clock, and records of now
    found = odd_record_times(
        census(
            replica([(1, 72), (2, 72), (3, 1)], topic="replayed"),
            replica([(4, -50 / 60), (5, -0.01)], topic="future"),
            replica([(6, 1), (7, 2)], topic="now"),
            replica([(4, -50 / 60)], topic="future", broker=2, leads=False),
            bound=dict.fromkeys((1, 2, 3, 4, 5, 6, 7), ("User:a", 3)),
        )
    )
    assert found == [
        RecordTimes("replayed", 2, 0, NOW - HOUR),
        RecordTimes("future", 0, 1, NOW + 50 * MINUTE),
    ]


def test_an_entry_that_should_have_expired_has_old_records_unless_its_transaction_is_open() -> None:
    overdue = census(replica([(1, 25), (2, 25, True), (3, 24.3)], topic="t"), check_ms=10 * MINUTE)
    assert [(each.topic, each.old_entries) for each in odd_record_times(overdue)] == [("t", 1)]
    assert overdue.expirations_ms == {1: DAY}


def test_a_transaction_open_for_longer_than_brokers_allow_is_named_with_its_id_if_that_is_told() -> None:
    found = hanging_transactions(
        census(
            replica([(1, 2, True), (2, 0.2, True), (3, 5)], topic="t", partition=4),
            replica([(4, 72, True)], topic="old", leads=True),
            replica([(1, 2, True)], topic="t", partition=4, broker=2, leads=False),
            bound={4: ("User:a", 1)},
        ),
        {1: "pay-1"},
    )
    # The third one's records are older than its producer.
    assert found == [
        HangingTransaction("t", 4, 1, NOW - 2 * HOUR, "pay-1"),
        HangingTransaction("old", 0, 4, NOW - HOUR),
    ]
