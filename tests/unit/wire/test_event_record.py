"""Tests that events survive their packing into records."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.event_record import (
    MAX_EVENTS,
    MAX_RECORD_BYTES,
    ProduceEvent,
    count_events,
    find_addresses,
    pack_events,
    parse_events,
)

NOW_MS = 1_790_000_000_000

EVENTS = st.lists(
    st.builds(
        ProduceEvent,
        timestamp_ms=st.one_of(st.integers(NOW_MS, NOW_MS + 9), st.integers()),
        principal=st.just("User:alice"),
        producer_id=st.one_of(st.integers(-1, 9), st.integers()),
        producer_epoch=st.integers(0, 1),
        broker_id=st.just(1),
        topic=st.sampled_from(["orders", "é" * 20_000]),
        partition=st.integers(0, 2),
        client_id=st.sampled_from([None, "c"]),
        transactional_id=st.sampled_from([None, "t"]),
        learning=st.booleans(),
        address=st.sampled_from([None, "10.0.0.7"]),
    ),
    max_size=40,
)


def event(producer_id: int, **fields: object) -> ProduceEvent:
    return msgspec.structs.replace(
        ProduceEvent(NOW_MS, "User:alice", producer_id, 0, 1, "orders", 0, "app"),
        **fields,
    )


def values(events: list[ProduceEvent]) -> list[bytes]:
    return [msgspec.json.encode(record) for record in pack_events(events)]


@given(EVENTS)
def test_events_come_out_of_their_records_as_they_were_and_in_order(events: list[ProduceEvent]) -> None:
    assert [each for value in values(events) for each in parse_events(value)] == events


def test_a_record_says_once_what_its_events_share() -> None:
    (value,) = values([event(4000), event(4001, timestamp_ms=NOW_MS - 3, partition=1)])

    assert json.loads(value) == {
        "timestamp_ms": NOW_MS,
        "principal": "User:alice",
        "broker_id": 1,
        "groups": [{"topic": "orders", "client_id": "app"}],
        "after_ms": [0, -3],
        "producer_ids": [4000, 4001],
        "partitions": [0, 1],
    }


@pytest.mark.parametrize("odd", [event(2**63), event(1, timestamp_ms=2**63), event(-(2**63) - 1)])
def test_an_event_that_no_reader_takes_does_not_share_a_record(odd: ProduceEvent) -> None:
    assert [list(each.events()) for each in pack_events([event(1), odd, event(2)])] == [[event(1)], [odd], [event(2)]]


def test_a_record_is_of_bounded_length() -> None:
    many, rest = pack_events([event(number) for number in range(MAX_EVENTS + 2)])
    assert (len(many.producer_ids), len(rest.producer_ids)) == (MAX_EVENTS, 2)


@pytest.mark.parametrize("field", ["client_id", "transactional_id", "address"])
def test_a_record_whose_events_share_nothing_is_of_bounded_length(field: str) -> None:
    most: dict[str, Any] = {"learning": True, "client_id": "", "transactional_id": "", "address": ""}

    for size in (1, 300):
        texts = [most | {field: f"{number:0{size}}"} for number in range(MAX_EVENTS)]
        found = values([event(2**60 + number, **each) for number, each in enumerate(texts)])
        assert len(found) > 1
        assert max(map(len, found)) < MAX_RECORD_BYTES


def test_addresses_are_of_their_events_and_null_where_the_writer_left_them_out() -> None:
    (value,) = values([event(1, address="10.0.0.7"), event(2, address="2001:db8::7"), event(3)])

    assert json.loads(value)["groups"] == [
        {"topic": "orders", "client_id": "app", "address": "10.0.0.7"},
        {"topic": "orders", "client_id": "app", "address": "2001:db8::7"},
        {"topic": "orders", "client_id": "app"},
    ]
    assert [each.address for each in parse_events(value)] == ["10.0.0.7", "2001:db8::7", None]


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


@given(EVENTS)
def test_the_addresses_of_a_record_are_those_of_its_events(events: list[ProduceEvent]) -> None:
    for value in values(events):
        found = {each.address for each in parse_events(value)}
        assert find_addresses(value) == ("User:alice", found)
        assert count_events(value) == len(parse_events(value))


@pytest.mark.parametrize(
    ("value", "addresses"),
    [
        (b'{"principal":"User:m","producer_ids":[1],"timestamp_ms":1}', {None}),
        (b'{"principal":"User:m","groups":[]}', {None}),
        (b'{"principal":"User:m","groups":[{"address":"::1"},{"topic":"orders"}]}', {"::1", None}),
    ],
)
def test_the_addresses_of_incomplete_records_are_read(value: bytes, addresses: set[str | None]) -> None:
    assert find_addresses(value) == ("User:m", addresses)


@pytest.mark.parametrize("value", [b"", b"{}", b"null", b"{", b'{"principal":7}', b'{"principal":"a","groups":[7]}'])
def test_what_is_no_record_has_no_addresses_and_counts_as_one_event(value: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        find_addresses(value)
    assert count_events(value) == 1
