import json

import pyarrow as pa
import pytest

from streaming.decode.records import decode
from tests.kits.exploded_kit import block_of, table_of

SKEW_MS = 300_000
NOW_MS = 1_790_000_000_000


def records(*values: bytes | None) -> pa.Table:
    return block_of(values, NOW_MS)


def event(pid: object = 4711, **fields: object) -> bytes:
    base = {"timestamp_ms": NOW_MS, "principal": "User:alice", "after_ms": [0], "producer_ids": [pid]}
    return json.dumps(base | fields).encode()


def test_an_event_is_read_with_its_place_and_unknown_fields_are_ignored() -> None:
    block = decode(records(event(groups=[{"client_id": "app", "address": "10.0.0.7", "x": 1}], nested={"x": [1]})))

    assert block.quarantined == []
    assert table_of(block.events).to_pylist() == [
        {
            "timestamp_ms": NOW_MS,
            "principal": "User:alice",
            "producer_id": 4711,
            "client_id": "app",
            "address": "10.0.0.7",
            "learning": None,
            "partition": 3,
            "offset": 0,
            "record_ms": NOW_MS,
        }
    ]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "value is empty"),
        (b"", "value is empty"),
        (b"not json", "not an event"),
        (b"[1, 2]", "not an event"),
        (b"\xff\xfe\x00", "not an event"),
        (b'{"a": 1}{"b": 2}', "not an event"),
        (event("7"), "not an event"),
        (event(1.5), "not an event"),
        (event(None), "producer_ids holds null"),
        (event(2**63), "range of int64"),
        (event(-2), "producer_id is below -1"),
        (event(timestamp_ms=-1), "timestamp_ms is negative"),
        (event(timestamp_ms=NOW_MS + SKEW_MS + 1), "timestamp_ms is in the future"),
        (event(principal="alice"), "principal is not Type:name"),
        (event(principal="User:"), "principal is not Type:name"),
        (event(principal="User:" + "x" * 1020), "principal is longer than 1024 bytes"),
        (event(principal="User:" + "é" * 510), "principal is longer than 1024 bytes"),
        (b'{"principal": "User:a", "producer_ids": [1], "after_ms": [0]}', "timestamp_ms"),
        (b'{"timestamp_ms": 1790000000000, "principal": "User:a", "producer_id": 1}', "producer_ids is missing"),
    ],
)
@pytest.mark.parametrize("neighbours", [(), (event(), b"broken")])
def test_a_bad_record_is_quarantined_with_its_reason_whatever_its_neighbours(
    value: bytes | None, reason: str, neighbours: tuple[bytes, ...]
) -> None:
    block = decode(records(*neighbours, value))

    (bad,) = [record for record in block.quarantined if record.offset == len(neighbours)]
    assert bad.value == (value or b"")
    # The block reader says what is missing, the single reader what did not parse: both name the record.
    assert reason in bad.reason or "is missing" in bad.reason
    assert block.events.producer_ids.size == (1 if neighbours else 0)


def test_an_event_is_held_to_its_own_record_and_its_neighbours_count() -> None:
    # Given two records, the second a window newer
    ahead, edge = NOW_MS + SKEW_MS + 1, NOW_MS + SKEW_MS
    values = records(event(timestamp_ms=ahead), event(timestamp_ms=edge), event(timestamp_ms=ahead))
    own = pa.array([NOW_MS, NOW_MS, NOW_MS + SKEW_MS])

    block = decode(values.set_column(4, "record_ms", own))

    # Then only the first is ahead of its own
    assert [(each.offset, each.reason) for each in block.quarantined] == [(0, "timestamp_ms is in the future")]
    assert len(block.events) == 2


def test_an_event_ahead_of_the_streams_clock_takes_no_other_with_it() -> None:
    values = records(event(), event(timestamp_ms=NOW_MS - 1))

    block = decode(values, begin_ms=NOW_MS - SKEW_MS - 1)

    assert [each.offset for each in block.quarantined] == [0]
    assert len(block.events) == 1


def test_a_value_of_two_objects_does_not_make_up_for_an_empty_one() -> None:
    block = decode(records(event(1) + event(2), b"", event(3)))

    assert ([bad.offset for bad in block.quarantined], block.events.producer_ids.tolist()) == ([0, 1], [3])


def test_a_producer_id_of_minus_one_is_valid_beside_one_that_is_lower() -> None:
    assert [each.offset for each in decode(records(event(-1), event(-2))).quarantined] == [1]


def test_the_longest_principal_that_is_accepted_has_1024_bytes() -> None:
    names = ["User:" + "x" * 1019, "User:" + "é" * 509]

    assert decode(records(*[event(principal=name) for name in names])).quarantined == []


@pytest.mark.parametrize("value", [b"x" * 10_000, event(principal="User:" + "x" * 10_000)])
def test_of_a_long_bad_value_the_beginning_is_kept_and_its_length_said(value: bytes) -> None:
    ((kept, reason, *_),) = decode(records(value)).quarantined

    assert kept == value[:4096]
    assert reason.endswith(f"(value cut to 4096 of {len(value)} bytes)")


@pytest.mark.parametrize("neighbours", [(), (b"broken",)])
def test_an_event_ahead_of_the_drivers_clock_is_bad_even_if_its_record_is_as_far_ahead(
    neighbours: tuple[bytes, ...],
) -> None:
    values = records(event(), *neighbours)

    block = decode(values, begin_ms=NOW_MS - SKEW_MS - 1)
    at_the_edge = decode(values, begin_ms=NOW_MS - SKEW_MS)

    (ahead,) = [record.reason for record in block.quarantined if record.offset == 0]
    assert ahead == "timestamp_ms is ahead of the stream's clock"
    assert (block.events.producer_ids.size, at_the_edge.events.producer_ids.size) == (0, 1)
