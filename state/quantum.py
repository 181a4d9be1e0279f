"""The Bloom filters that are written to during one quantum, open and as they are stored."""

import math
from operator import index
from typing import NamedTuple

from rbloom import Bloom

_HEADER_BYTES = 8
"""rbloom stores the number of its hash functions in front of the bits."""


class LayerState(NamedTuple):
    """A layer as it is stored: room for `capacity` PIDs, of which `entries` are taken."""

    capacity: int
    entries: int
    bits: bytes


class QuantumState(NamedTuple):
    """The layers of one quantum as they are stored.

    `renewed` of its entries were written again in a later quantum, `renewals` of them come from an earlier one.
    """

    quantum: int
    renewed: int
    renewals: int
    layers: list[LayerState]


def layer_bytes(capacity: int, false_positive_rate: float) -> int:
    """Return the bytes of a layer: the optimal Bloom filter for so many PIDs at this rate.

    Examples:
        >>> layer_bytes(1000, 1e-4)
        2405
    """
    return _HEADER_BYTES + math.ceil(-capacity * math.log(false_positive_rate) / math.log(2) ** 2 / 8)


class Layer:
    """A Bloom filter with a capacity; its bits are read from bytes only when asked for."""

    __slots__ = ("_bits", "_bloom", "capacity", "entries")

    def __init__(self, capacity: int, entries: int, bits: bytes | None, bloom: Bloom | None) -> None:
        self.capacity = capacity
        self.entries = entries
        self._bits = bits
        self._bloom = bloom

    @classmethod
    def empty(cls, capacity: int, false_positive_rate: float) -> "Layer":
        """Make a layer for so many PIDs."""
        return cls(capacity, 0, None, Bloom(capacity, false_positive_rate, index))

    def bloom(self) -> Bloom:
        """Return the filter to look PIDs up in."""
        if self._bloom is None:
            self._bloom = Bloom.load_bytes(self._bits or b"", index)
        return self._bloom

    def add(self, pid_hash: int) -> None:
        """Store a PID."""
        self.bloom().add(pid_hash)
        self.entries += 1
        self._bits = None

    def state(self) -> LayerState:
        """Return the layer as it is stored."""
        if self._bits is None:
            self._bits = self.bloom().save_bytes()
        return LayerState(self.capacity, self.entries, self._bits)

    def size_bytes(self) -> int:
        """Return the bytes of its bits."""
        return len(self._bits) if self._bits is not None else _HEADER_BYTES + self.bloom().size_in_bits // 8


class Quantum:
    """The layers written to during one quantum."""

    __slots__ = ("entries", "layers", "number", "renewals", "renewed")

    def __init__(self, number: int, renewed: int, renewals: int, layers: list[Layer]) -> None:
        self.number = number
        self.renewed = renewed
        self.renewals = renewals
        self.layers = layers
        self.entries = sum(layer.entries for layer in layers)

    def add(self, pid_hash: int) -> None:
        """Store a PID in the newest layer, which has room."""
        self.layers[-1].add(pid_hash)
        self.entries += 1
