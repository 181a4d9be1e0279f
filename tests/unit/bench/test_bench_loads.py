"""Loads: the same events, packed or one a record."""

import json
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bench import kit
from bench.loads import Content, Load, records_of, round_records, values_of
from wire.event_record import MAX_EVENTS, ProduceEvent, parse_events

Seen = dict[str, list[tuple[int, int]]]


def pids_and_times(load: Load) -> Seen:
    """By principal, in order: its PIDs, and ms since the first event of all."""
    found: dict[str, list[Any]] = defaultdict(list)
    for name, value, size in records_of(load):
        events = parse_events(value)
        assert len(events) == size
        assert {each.principal for each in events} == {name}
        found[name] += events
    begin_ms = min(each.timestamp_ms for events in found.values() for each in events)
    return {
        name: [(each.producer_id, each.timestamp_ms - begin_ms) for each in events] for name, events in found.items()
    }


@pytest.mark.parametrize("flood_pids", [0, 1500])
def test_a_principal_has_the_same_events_in_the_same_order_whether_they_are_packed_or_not(flood_pids: int) -> None:
    one, many = (Load(3000, 20, flood_pids, per_record) for per_record in (1, 20))

    assert pids_and_times(many) == pids_and_times(one)


def test_records_have_so_many_events_on_average() -> None:
    records = list(records_of(Load(50_000, 200, per_record=20)))

    assert 20 <= sum(size for *_, size in records) / len(records) < 30


def test_no_record_is_longer_than_the_contract_allows() -> None:
    size = MAX_EVENTS + 1
    sizes = [size for *_, size in round_records(np.zeros(size, int), np.arange(size), np.zeros(size, int))]

    assert sizes == [MAX_EVENTS, 1]


def test_without_packing_each_event_has_its_own_record_in_the_order_of_time() -> None:
    owners, pids, times = np.array([2, 1, 2]), np.array([20, 10, 21]), np.array([5, 6, 7])

    records = list(round_records(owners, pids, times, is_packed=False))

    assert [(name, size) for name, _, size in records] == [("User:app-2", 1), ("User:app-1", 1), ("User:app-2", 1)]
    assert [each.producer_id for _, value, _ in records for each in parse_events(value)] == [20, 10, 21]


def test_an_event_says_what_the_plugin_says() -> None:
    ((value, size),) = values_of("User:a", "c", [7, 30], [9, 12])

    first, second = parse_events(value)
    assert size == 2
    assert first == ProduceEvent(9, "User:a", 7, 0, 1, "orders", 7, "c", address="10.0.0.5")
    assert (second.timestamp_ms, second.producer_id, second.partition) == (12, 30, 6)


def batch(begin: dict[str, int] | None, end: dict[str, int]) -> Any:
    """The progress of a batch between two offsets."""
    places = [json.dumps(None if each is None else {"topic": each}) for each in (begin, end)]
    return SimpleNamespace(sources=[SimpleNamespace(startOffset=places[0], endOffset=places[1])])


def test_events_are_counted_by_the_offsets_of_their_records() -> None:
    # given two records of 2 and 3 events on one partition, one of 4 on the other
    content = Content((np.array([0, 2, 5]), np.array([0, 4])), value_bytes=180)

    assert content.events_to({"0": 1, "1": 1}) == 6
    assert kit.events_of(batch(None, {"0": 1}), content) == 2
    assert kit.events_of(batch({"0": 1, "1": 0}, {"0": 2, "1": 1}), content) == 7
    assert (content.events_per_record, content.bytes_per_event) == (3, 20)
