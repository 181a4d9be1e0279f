"""The set of ids that the brokers held."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.attribution import known_ids
from broker.attribution.known_ids import KnownIds

IDS = st.integers(0, 2**63 - 1)


@given(st.lists(st.lists(IDS | st.integers(0, 20))), st.lists(IDS | st.integers(0, 20)))
def test_it_knows_what_a_partition_held_and_nothing_else(partitions: list[list[int]], others: list[int]) -> None:
    held = {each for partition in partitions for each in partition}

    found = KnownIds.of({}, partitions)

    assert len(found) == len(held)
    assert [each in found for each in others] == [each in held for each in others]
    assert all(each in found for each in held)


def test_more_than_fit_into_one_part_are_merged_without_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_ids, "_CHUNK", 3)
    monkeypatch.setattr(known_ids, "_PIECE", 2)

    found = KnownIds.of({}, [[5, 1, 9], [1, 2, 9, 7], [], [3, 5], [0]])

    assert found.ids == array("q", [0, 1, 2, 3, 5, 7, 9])
