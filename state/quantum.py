"""The Bloom filters of one quantum."""

import math
from functools import cached_property
from operator import index

import msgspec
from rbloom import Bloom

_HEADER_BYTES = 8
"""rbloom stores the number of its hash functions in front of the bits."""


def layer_bytes(capacity: int, false_positive_rate: float) -> int:
    """Return the size of a layer in bytes. A layer is an optimal Bloom filter for this capacity and rate.

    Examples:
        >>> layer_bytes(1000, 1e-4)
        2405
    """
    return _HEADER_BYTES + math.ceil(-capacity * math.log(false_positive_rate) / math.log(2) ** 2 / 8)


class Layer(msgspec.Struct, array_like=True, dict=True):
    """A Bloom filter that is decoded on first use.

    `bits` is the stored filter. It is empty while the decoded filter has newer entries.
    """

    capacity: int
    entries: int
    bits: bytes

    @classmethod
    def empty(cls, capacity: int, false_positive_rate: float) -> "Layer":
        """Return an empty layer."""
        layer = cls(capacity, 0, b"")
        layer.bloom = Bloom(capacity, false_positive_rate, index)
        return layer

    @cached_property
    def bloom(self) -> Bloom:
        """The decoded filter."""
        return Bloom.load_bytes(self.bits, index)

    def add(self, pid_hash: int) -> None:
        """Store a PID."""
        self.bloom.add(pid_hash)
        self.entries += 1
        self.bits = b""

    def seal(self) -> None:
        """Update the stored filter."""
        if not self.bits:
            self.bits = self.bloom.save_bytes()

    def size_bytes(self) -> int:
        """Return the filter's size in bytes."""
        return len(self.bits) or _HEADER_BYTES + self.bloom.size_in_bits // 8


class Quantum(msgspec.Struct, array_like=True):
    """The layers of one quantum, oldest first.

    Attributes:
        copied: Number of entries that were also written to a later quantum.
        refreshes: Number of entries that were written because an earlier quantum holds them.
    """

    number: int
    copied: int
    refreshes: int
    layers: list[Layer]

    @property
    def entries(self) -> int:
        """Number of PIDs in the quantum."""
        return sum([layer.entries for layer in self.layers])
