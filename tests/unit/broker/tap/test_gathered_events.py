import msgspec

from broker.tap.tap_output import pack_round
from wire.event_record import EventRecord, events_of
from wire.records import ProduceEvent

NOW_MS = 1_790_000_000_000
ROUND = [
    ProduceEvent(NOW_MS + number, f"User:{name}", number, 0, broker, "orders", 0, "app")
    for number, (name, broker) in enumerate([("a", 1), ("b", 1), ("a", 1), ("a", 2), ("a", 1), ("b", 1)])
]


def test_each_principal_s_events_keep_their_order_and_a_record_is_of_one_broker() -> None:
    records = list(pack_round(ROUND))

    events = [event for record in records for event in events_of(msgspec.json.encode(record))]
    for name in ("User:a", "User:b"):
        assert [each for each in events if each.principal == name] == [each for each in ROUND if each.principal == name]
    assert len(records) == 4
    assert any(isinstance(record, EventRecord) for record in records)


def test_an_event_of_twenty_takes_at_most_thirty_bytes() -> None:
    (record,) = pack_round(
        ProduceEvent(NOW_MS + 50 * number, "User:app-1234", 1_234_567 + number, 0, 101, "orders", number % 12, "app-7")
        for number in range(20)
    )

    assert len(record.key()) + len(msgspec.json.encode(record)) <= 20 * 30
