"""The KIP's own class: a map of principals to layered Bloom filters, for use in one process."""

import secrets
import threading
import time
from collections.abc import Callable

from quota.config import QuotaConfig
from state.hashing import hash_pid
from state.layers import LayeredBloomFilter


class ProducerIdQuotaManagerCache:
    """Tracks which PIDs each principal used in the last window (KIP-936, "New ProducerIdQuotaManagerCache").

    Thread-safe. The cache forgets a principal whose layers have all expired. If the clock is set back, expired layers
    do not return.

    Args:
        false_positive_rate: Maximum share of unseen PIDs that `track` reports as found.
        window_seconds: Minimum time that a PID is remembered after its last use.
        layer_count: Layers per window. A PID is remembered for at most a window plus `window / layer_count`.
        clock: Returns the time in seconds.

    Raises:
        InvalidConfigError: If an argument is out of range.

    Examples:
        >>> cache = ProducerIdQuotaManagerCache(0.01, 3600, 4, clock=lambda: 0.0)
        >>> cache.track("User:alice", 100, 4711), cache.track("User:alice", 100, 4711)
        (False, True)
    """

    def __init__(
        self,
        false_positive_rate: float,
        window_seconds: int,
        layer_count: int,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._config = QuotaConfig(
            false_positive_rate=false_positive_rate, window_seconds=window_seconds, layer_count=layer_count
        )
        self._clock = clock
        self._lock = threading.Lock()
        self._filters: dict[str, LayeredBloomFilter] = {}
        self._salt = secrets.randbits(63)
        self._clock_ms = self._time_ms = self._read_clock_ms()
        self._quantum = self._time_ms // self._config.quantum_ms

    def track(
        self, principal: str, producer_ids_rate: float, pid: int, *, admit: Callable[[], bool] = lambda: True
    ) -> bool:
        """Record that a PID is in use now. Return whether the PID was found.

        As in the KIP, `producer_ids_rate` is a hint for the filter's size. `admit` is called before an unseen PID is
        stored, while the cache holds its lock. If `admit` returns False, the PID stays unseen.
        """
        with self._lock:
            seen, pid_hash = self._seen(principal, producer_ids_rate), hash_pid(pid, self._salt)
            if seen.holds_in_current(pid_hash):
                return True
            source = seen.find(pid_hash)
            if source is not None:
                if seen.may_refresh(self._quantum):
                    seen.refresh(pid_hash, source, self._quantum)
                return True
            if admit():
                seen.store(pid_hash, self._quantum)
            return False

    def __len__(self) -> int:
        """Return the number of principals."""
        with self._lock:
            self._advance()
            return len(self._filters)

    def _seen(self, principal: str, producer_ids_rate: float) -> LayeredBloomFilter:
        self._advance()
        seen = self._filters.get(principal)
        if seen is None:
            expected = max(0.0, producer_ids_rate) / self._config.layer_count
            seen = self._filters[principal] = LayeredBloomFilter(self._config, self._quantum, expected_pids=expected)
        return seen

    def _advance(self) -> None:
        clock_ms = self._read_clock_ms()
        self._time_ms += max(0, clock_ms - self._clock_ms)
        self._clock_ms = clock_ms
        quantum = self._time_ms // self._config.quantum_ms
        if quantum == self._quantum:
            return
        self._quantum = quantum
        for seen in self._filters.values():
            seen.advance(quantum)
        self._filters = {name: seen for name, seen in self._filters.items() if seen.layers()}

    def _read_clock_ms(self) -> int:
        return int(self._clock() * 1000)
