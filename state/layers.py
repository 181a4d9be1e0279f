"""The layered Bloom filter of KIP-936, which remembers the PIDs that a principal used in the last window.

A PID is known if a layer of a live quantum holds it. After its last use, a PID stays known for at least a window, and
for at most a window and a quantum. PIDs are passed as hashes (`state.hashing`).
"""

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from quota.config import QuotaConfig
from state.quantum import Layer, Quantum, layer_bytes

if TYPE_CHECKING:
    from rbloom import Bloom

MIN_FIRST_CAPACITY = 16
"""Minimum capacity of a quantum's first layer. Most principals create few PIDs."""
MIN_EXTENSION = 32
"""Minimum capacity of a quantum's other layers. A look-up reads every layer, so there should be few layers."""
MAX_FIRST_CAPACITY = 1000
"""Upper bound for the hint `expected_pids`. Few principals use all of their quota."""

FIRST_LAYER_SHARE = 0.8
"""The first layer's share of a quantum's false positive rate. Most quanta have no other layer."""

EXTENSION_SHARE = 0.3
"""Capacity of each further layer, as a share of the quantum's entries. This share bounds the unused space."""


@lru_cache(maxsize=8)
def _bytes_per_pid(layer_count: int, false_positive_rate: float) -> float:
    """Return the bytes that one PID takes if each live quantum holds the PID."""
    return (layer_count + 1) * layer_bytes(1000, false_positive_rate) / 1000


class LayeredBloomFilter:
    """The PIDs that one principal used, in layers that expire. Not thread-safe.

    Quanta are given by number (`quota.timeline`).

    Examples:
        >>> seen = LayeredBloomFilter(QuotaConfig(), quantum=0)
        >>> seen.store(4711, quantum=0)
        True
        >>> seen.find(4711) is None, seen.find(4712) is None
        (False, True)
        >>> seen.advance(5)
        >>> seen.find(4711) is None
        True
    """

    def __init__(
        self,
        config: QuotaConfig,
        quantum: int,
        quanta: list[Quantum] | None = None,
        expected_pids: float = 0,
    ) -> None:
        """Open a filter. `quanta` is a result of `to_quanta`; the filter changes it.

        `expected_pids` is a hint for the capacity of the first layer.
        """
        self._first_capacity = min(expected_pids, MAX_FIRST_CAPACITY)
        self._layer_count = config.layer_count
        # Each live quantum gets the same share of the false positive rate.
        self._rate_per_quantum = config.false_positive_rate / (config.layer_count + 1)
        self._quanta = quanta or []
        self._quantum = quantum
        self.advance(quantum)

    def advance(self, quantum: int) -> None:
        """Move to a later quantum, and drop expired layers."""
        self._quantum = max(quantum, self._quantum)
        oldest_live = self._quantum - self._layer_count
        if self._quanta and self._quanta[0].number < oldest_live:
            self._quanta = [each for each in self._quanta if each.number >= oldest_live]
        self._reset_lookups()

    def holds_in_current(self, pid_hash: int) -> bool:
        """Return whether the current quantum holds the PID. An event with such a PID changes nothing."""
        # This runs for every event. With several layers, a generator would take twice as long.
        held = False
        for bloom in self._current:
            held = held or pid_hash in bloom
        return held

    def find(self, pid_hash: int) -> Quantum | None:
        """Return the newest quantum that holds the PID, or None."""
        for bloom, quantum in self._newest_first or self._open_all():
            if pid_hash in bloom:
                return quantum
        return None

    def store(self, pid_hash: int, quantum: int, max_bytes: int | None = None) -> bool:
        """Write an unseen PID to the newest layer of a live quantum.

        Returns:
            False, without writing, if the layers would exceed `max_bytes`.
        """
        quanta = self._quanta
        target = quanta[-1] if quanta and quanta[-1].number == quantum else self._find_quantum(quantum)
        if not self._make_room(target, max_bytes):
            return False
        target.layers[-1].add(pid_hash)
        return True

    def may_refresh(self, quantum: int) -> bool:
        """Return whether a quantum may take another refresh.

        The maximum is the number of entries in the live quanta before it. No PID is refreshed twice in a quantum, so
        known PIDs never exceed this limit. Without the limit, a flood's false positives could make the state grow
        without bound.
        """
        entries_before = sum([each.entries for each in self._quanta if each.number < quantum])
        return self._find_quantum(quantum).refreshes < entries_before

    def refresh(self, pid_hash: int, source: Quantum, quantum: int, max_bytes: int | None = None) -> bool:
        """Also write a known PID to a later live quantum, so that the PID stays known while it is in use.

        `source` is the result of `find`. For the current quantum, `may_refresh` must be true.

        Returns:
            False, without writing, if the layers would exceed `max_bytes`.
        """
        if not self.store(pid_hash, quantum, max_bytes):
            return False
        source.copied += 1
        self._find_quantum(quantum).refreshes += 1
        return True

    def active_pids(self) -> int:
        """Return the number of distinct PIDs in the live layers. It is exact except for false positives."""
        return sum([max(0, each.entries - each.copied) for each in self._quanta])

    def layers(self) -> int:
        """Return the number of layers."""
        return sum([len(each.layers) for each in self._quanta])

    def size_bytes(self) -> int:
        """Return the size of all layers in bytes."""
        return sum(layer.size_bytes() for each in self._quanta for layer in each.layers)

    def bytes_for(self, pids: float) -> int:
        """Return the bytes that `pids` PIDs take if each live quantum holds all of them."""
        return math.ceil(pids * _bytes_per_pid(self._layer_count, self._rate_of_layer(8)))

    def to_quanta(self) -> list[Quantum]:
        """Return the quanta to store, oldest first."""
        for quantum in self._quanta:
            for layer in quantum.layers:
                layer.seal()
        return self._quanta

    def _find_quantum(self, number: int) -> Quantum:
        """Return a quantum. If no PID is stored in it yet, return a new one, which is not kept."""
        for quantum in reversed(self._quanta):
            if quantum.number == number:
                return quantum
        return Quantum(number, 0, 0, [])

    def _make_room(self, quantum: Quantum, max_bytes: int | None) -> bool:
        """Add a layer if the newest layer is full. Return false if the layers would exceed `max_bytes`."""
        layers = quantum.layers
        if layers and layers[-1].entries < layers[-1].capacity:
            return True
        capacity, rate = self._next_capacity(quantum), self._rate_of_layer(len(layers))
        if max_bytes is not None and self.size_bytes() + layer_bytes(capacity, rate) > max_bytes:
            return False
        if not layers:
            # A late event may open a quantum that is not the newest.
            self._quanta = sorted([*self._quanta, quantum], key=lambda each: each.number)
        layers.append(Layer.empty(capacity, rate))
        self._reset_lookups()
        return True

    def _next_capacity(self, quantum: Quantum) -> int:
        held = quantum.entries
        if held:
            return max(MIN_EXTENSION, math.ceil(held * EXTENSION_SHARE))
        # Expect as many entries as in the previous quantum.
        return max(MIN_FIRST_CAPACITY, math.ceil(max(self._entries_before(quantum), self._first_capacity)))

    def _entries_before(self, quantum: Quantum) -> int:
        return next((each.entries for each in reversed(self._quanta) if each.number < quantum.number), 0)

    def _rate_of_layer(self, position: int) -> float:
        if position == 0:
            return self._rate_per_quantum * FIRST_LAYER_SHARE
        # 1/1 + 1/4 + 1/9 + ... = pi^2/6, so the rates of any number of layers sum up to the quantum's share.
        return self._rate_per_quantum * (1 - FIRST_LAYER_SHARE) * 6 / math.pi**2 / position**2

    def _reset_lookups(self) -> None:
        """Open only the layers of the current quantum, because most batches need no others."""
        self._current: list[Bloom] = []
        self._newest_first: list[tuple[Bloom, Quantum]] | None = None
        if self._quanta and self._quanta[-1].number == self._quantum:
            self._current = [layer.bloom for layer in reversed(self._quanta[-1].layers)]

    def _open_all(self) -> "list[tuple[Bloom, Quantum]]":
        self._newest_first = [(layer.bloom, each) for each in reversed(self._quanta) for layer in reversed(each.layers)]
        return self._newest_first
