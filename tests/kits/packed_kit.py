"""Unpacks the output of the pre-aggregation."""

from collections.abc import Iterable

import pandas as pd
from msgspec.structs import replace

from state.events import Events
from streaming.operator.group_events import arrived
from wire.packed_events import PackedEvents, unpack


def unpacked(packed: bytes) -> PackedEvents:
    found = unpack(packed)
    assert isinstance(found, PackedEvents)
    return found


def frame_of(rows: Iterable[tuple[str, bytes]]) -> pd.DataFrame:
    """Return pre-aggregates as Spark gives them to the operator."""
    return pd.DataFrame(list(rows), columns=["principal", "packed"])


def in_order(parts: Iterable[PackedEvents]) -> Events:
    """Return the events of one principal, without the hashes of their PIDs."""
    found = arrived([("", part) for part in parts], 0)[""].events
    return replace(found, hashes=[])
