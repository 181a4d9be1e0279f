"""Tests that the events of a record are read whole or not at all."""

import json

import msgspec
import pytest

from wire.event_record import ProduceEvent, count_events, parse_events

NOW_MS = 1_790_000_000_000


def test_events_have_their_own_time_and_id_and_share_the_fields_of_their_group() -> None:
    value = json.dumps(
        {
            "timestamp_ms": NOW_MS,
            "principal": "User:alice",
            "broker_id": 1,
            "groups": [{"topic": "orders", "client_id": "app", "address": "10.0.0.7"}, {"topic": "bills"}],
            "group": [0, 1],
            "after_ms": [0, -3],
            "producer_ids": [4000, 4001],
            "producer_epochs": [0, 2],
            "partitions": [0, 1],
        }
    ).encode()

    assert parse_events(value) == [
        ProduceEvent(NOW_MS, "User:alice", 4000, 0, 1, "orders", 0, "app", address="10.0.0.7"),
        ProduceEvent(NOW_MS - 3, "User:alice", 4001, 2, 1, "bills", 1),
    ]
    assert count_events(value) == 2


def test_what_a_foreign_writer_left_out_has_a_default_and_what_it_added_is_ignored() -> None:
    value = json.dumps({"timestamp_ms": NOW_MS, "principal": "User:a", "producer_ids": [7, 8], "after_ms": [0, 1]})

    first, second = parse_events(value.encode())
    assert first == ProduceEvent(NOW_MS, "User:a", 7, 0, None, "", -1)
    assert (second.timestamp_ms, second.producer_id) == (NOW_MS + 1, 8)
    assert parse_events(json.dumps({**json.loads(value), "version": "x"}).encode()) == [first, second]


@pytest.mark.parametrize(
    "fields",
    [
        {"after_ms": [0]},
        {"after_ms": [], "producer_ids": []},
        {"group": [0]},
        {"group": [0, 1]},
        {"group": [0, -1]},
        {"producer_epochs": [0, 0, 0]},
        {"partitions": []},
        {"producer_ids": "12"},
        {"groups": [{"learning": 1}]},
    ],
)
def test_a_record_that_does_not_fit_together_is_refused(fields: dict[str, object]) -> None:
    record = {"timestamp_ms": NOW_MS, "principal": "User:a", "producer_ids": [1, 2], "after_ms": [0, 1]}

    with pytest.raises(msgspec.MsgspecError):
        parse_events(json.dumps(record | fields).encode())


@pytest.mark.parametrize("name", ["timestamp_ms", "principal", "producer_ids", "after_ms"])
def test_a_record_without_a_required_field_is_refused(name: str) -> None:
    record = {"timestamp_ms": NOW_MS, "principal": "User:a", "producer_ids": [1], "after_ms": [0]}
    del record[name]

    with pytest.raises(msgspec.MsgspecError):
        parse_events(json.dumps(record).encode())


@pytest.mark.parametrize("value", [b"", b"{}", b"null", b"{", b'{"producer_ids":7}', b'{"producer_ids":[]}', b"\xff"])
def test_what_is_no_record_counts_as_one_event(value: bytes) -> None:
    assert count_events(value) == 1
