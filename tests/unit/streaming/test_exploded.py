"""Records of several events: what is read of them, and what is quarantined."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.decode.records import decode
from tests.kits.exploded_kit import block_of, table_of
from wire.event_record import EventGroup, EventRecord, parse_events

NOW_MS = 1_790_000_000_000


def records(values: Sequence[bytes]) -> pa.Table:
    return block_of(values, NOW_MS)


OTHER = b'{"timestamp_ms":1790000000000,"principal":"User:b","after_ms":[0],"producer_ids":[7]}'
RECORD: dict[str, Any] = {
    "timestamp_ms": NOW_MS,
    "principal": "User:alice",
    "broker_id": 1,
    "groups": [{"topic": "orders", "client_id": "c"}, {"topic": "orders"}],
    "group": [0, 1, 0],
    "after_ms": [0, 3, -7],
    "producer_ids": [4000, 4001, 4000],
    "partitions": [0, 1, 0],
}


def value(**fields: object) -> bytes:
    return json.dumps({name: each for name, each in (RECORD | fields).items() if each != "left out"}).encode()


def test_events_of_a_record_have_its_place_and_their_own_time_and_group() -> None:
    block = decode(records([value()]))

    rows = table_of(block.events).to_pylist()
    assert [(row["producer_id"], row["timestamp_ms"] - NOW_MS, row["client_id"]) for row in rows] == [
        (4000, 0, "c"),
        (4001, 3, None),
        (4000, -7, "c"),
    ]
    assert {row["offset"] for row in rows} == {0}


@pytest.mark.parametrize("address", [7, ["10.0.0.7"], {"ip": "10.0.0.7"}])
def test_an_address_that_is_no_text_is_quarantined(address: object) -> None:
    block = decode(records([value(groups=[{"address": address}, {}]), value()]))

    assert [each.offset for each in block.quarantined] == [0]


def test_bad_events_are_counted_by_reason_and_the_others_count() -> None:
    bad = value(after_ms=[0, 300_001, 300_001], producer_ids=[1, 2, -2])

    block = decode(records([value(), bad, value()]))

    ((kept, reason, _, _, offset, _),) = block.quarantined
    assert (kept, offset) == (bad, 1)
    assert reason == "1 of 3 events: producer_id is below -1; 1 of 3 events: timestamp_ms is in the future"
    assert table_of(block.events)["producer_id"].to_pylist() == [4000, 4001, 4000, 1, 4000, 4001, 4000]


def test_what_is_wrong_with_all_events_is_said_of_the_record() -> None:
    ((_, reason, *_),) = decode(records([value(principal="alice")])).quarantined

    assert reason == "principal is not Type:name"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"producer_ids": "left out"}, "producer_ids is missing or empty"),
        ({"producer_ids": [], "after_ms": [], "group": []}, "producer_ids is missing or empty"),
        ({"producer_ids": [1] * 1001, "after_ms": [0] * 1001, "group": [0] * 1001}, "more than 1000 events"),
        ({"after_ms": [0, 1]}, "after_ms and producer_ids differ in length"),
        ({"after_ms": "left out"}, "after_ms and producer_ids differ in length"),
        ({"group": [0]}, "group and producer_ids differ in length"),
        ({"group": [0, 1, 2]}, "group is out of range"),
        ({"group": [0, 1, -1]}, "group is out of range"),
        ({"groups": []}, "group is out of range"),
        ({"groups": [None, {}]}, "groups holds null"),
        ({"producer_ids": [1, None, 2]}, "producer_ids holds null"),
        ({"after_ms": [0, None, 2]}, "after_ms holds null"),
        ({"group": [0, None, 0]}, "group holds null"),
        ({"after_ms": [0, 2**63 - 1, 0]}, "after_ms is out of range"),
        ({"timestamp_ms": -(2**63), "after_ms": [0, -1, 0]}, "after_ms is out of range"),
        ({"after_ms": [0, 2**63, 0]}, "range of int64"),
        ({"producer_ids": [1, 10**30, 2]}, "range of int64"),
        ({"group": [0, 2**63, 0]}, "range of int64"),
        ({"groups": [{"learning": 1}, {}]}, "not an event"),
        ({"producer_ids": [[1], [2], [3]]}, "not an event"),
        ({"producer_ids": [1, 2.5, 3]}, "not an event"),
        ({"producer_ids": "123"}, "not an event"),
        ({"producer_ids": {"a": 1}}, "not an event"),
        ({"producer_ids": [1, float("nan"), 2]}, "not an event"),
        ({"groups": {"client_id": "c"}}, "not an event"),
        ({"groups": [[], []]}, "not an event"),
        ({"groups": [{"client_id": 7}, {}]}, "not an event"),
        ({"timestamp_ms": "left out"}, "timestamp_ms"),
        ({"principal": None}, "principal"),
    ],
)
def test_a_record_that_does_not_fit_together_is_quarantined_whole_and_shifts_no_other(
    fields: dict[str, object], reason: str
) -> None:
    odd = value(**fields)
    good = [value(), OTHER]

    for values in ([*good, odd, *good], [odd], [*good, odd, b"broken", *good]):
        block = decode(records(values))

        (bad,) = [each for each in block.quarantined if each.value == odd[:4096]]
        assert reason in bad.reason
        assert len(block.quarantined) == 1 + values.count(b"broken")
        pids = table_of(block.events)["producer_id"].to_pylist()
        assert pids == [4000, 4001, 4000, 7] * (0 if values == [odd] else 2)


@pytest.mark.parametrize("fields", [{"groups": None}, {"group": None}, {"version": "2"}, {"broker_id": "one"}])
def test_a_field_that_is_null_is_left_out_and_one_that_the_rules_do_not_read_may_be_anything(
    fields: dict[str, object],
) -> None:
    bare = RECORD | {"groups": [{}], "group": None}

    block = decode(records([json.dumps(bare | fields).encode(), value()]))

    assert block.quarantined == []
    assert [row["client_id"] for row in table_of(block.events).to_pylist()] == [None] * 3 + ["c", None, "c"]


TEXTS = st.none() | st.sampled_from(["", "app", "é漢", "a\nb"])
GROUPS = st.builds(EventGroup, st.sampled_from(["", "orders"]), TEXTS, TEXTS, TEXTS, st.booleans())


@st.composite
def event_records(draw: st.DrawFn) -> EventRecord:
    groups = draw(st.lists(GROUPS, max_size=4))

    def column(values: st.SearchStrategy[int]) -> st.SearchStrategy[list[int]]:
        return st.lists(values, min_size=size, max_size=size)

    size = draw(st.integers(1, 30))
    return EventRecord(
        draw(st.integers(NOW_MS - 10**6, NOW_MS)),
        "User:alice",
        draw(column(st.integers(-(10**6), 0))),
        draw(column(st.integers(-1, 2**61))),
        draw(st.none() | st.integers(0, 2)),
        groups,
        draw(column(st.integers(0, len(groups) - 1)) if len(groups) > 1 else st.none()),
        draw(st.none() | column(st.integers(0, 2))),
        draw(st.none() | column(st.integers(-1, 2))),
    )


@given(st.lists(event_records(), min_size=1, max_size=4), st.booleans())
def test_the_columns_of_records_are_the_events_in_them(every: list[EventRecord], has_bad: bool) -> None:
    values = [msgspec.json.encode(record) for record in every]

    block = decode(records([b"broken"] * has_bad + values))

    parsed = [event for each in values for event in parse_events(each)]
    names = ("timestamp_ms", "principal", "producer_id", "client_id", "address")
    columns = table_of(block.events)
    assert [tuple(row[name] for name in names) for row in columns.to_pylist()] == [
        tuple(getattr(event, name) for name in names) for event in parsed
    ]
    assert [bool(each) for each in columns["learning"].to_pylist()] == [event.learning for event in parsed]
