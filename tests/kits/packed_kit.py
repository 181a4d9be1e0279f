"""What the pre-aggregation packed, taken out again."""

from wire.packed_events import PackedEvents, unpack


def unpacked(packed: bytes) -> PackedEvents:
    found = unpack(packed)
    assert isinstance(found, PackedEvents)
    return found
