"""What is remembered of one principal."""

from quota.bucket import TokenBucket
from quota.limits import Limit
from quota.rate import SampledRate
from state.codec import LedgerState, encode
from state.events import Deployment
from state.layers import LayeredBloomFilter
from state.learning import Learning
from state.window import WindowCounts


class Memory:
    """The parts of a stored ledger, and values that depend on several parts. Not thread-safe.

    PIDs that take no token are late and refreshed PIDs, PIDs that may be old while the plugin or the stream learns, and
    all PIDs without a quota. For these, the filter has a maximum size. An unseen PID without room must not take a token
    later. So the current quantum is marked as saturated. While a live quantum is saturated, unseen PIDs take no token
    and are not refused.

    Attributes:
        state: The stored struct. `to_bytes` updates the struct from the other parts.
        reported: The bytes at the last metrics row; None for a new ledger.
    """

    def __init__(self, deployment: Deployment, state: LedgerState, content: bytes | None) -> None:
        """Open the ledger `state`, which was decoded from `content` (None for a new ledger)."""
        config, timeline = deployment.config, deployment.timeline
        self.deployment, self.state, self.reported = deployment, state, content
        self.filter = LayeredBloomFilter(config, timeline.quantum(max(0, state.clock_tick)), state.quanta)
        self.bucket = TokenBucket(config, timeline, state.limit, state.bucket)
        self.window = WindowCounts(state.counts, config)

    @property
    def limit(self) -> Limit:
        """The quota in force."""
        return self.state.limit

    def set_limit(self, limit: Limit) -> None:
        """Set the quota in force. Its numbers become floats, so that equal ledgers have equal bytes."""
        numbers = (limit.producer_ids_rate, limit.producer_ids_burst)
        rate, burst = (None if each is None else float(each) for each in numbers)
        self.state.limit = Limit(rate, limit.source, limit.updated_at_ms, burst)

    def to_bytes(self) -> bytes:
        """Return the bytes to store."""
        self.state.quanta = self.filter.to_quanta()
        self.state.bucket = self.bucket.to_parts()
        return encode(self.state)

    def expires_ms(self) -> int:
        """Return the event time after which this ledger affects no event.

        By then, all layers and rate samples have expired, the bucket is full, learning has ended, and no throttle is in
        force. KIP-936 removes such a user, too.
        """
        state, config, timeline = self.state, self.deployment.config, self.deployment.timeline
        quantum = timeline.quantum(max(0, state.clock_tick))
        ends_ms = (
            (quantum + config.layer_count + 1) * config.quantum_ms,
            self.bucket.full_ms(),
            state.rate.expires_ms(config),
            state.throttle.until_ms(),
            state.learning.until_ms,
        )
        # Rules apply at whole ticks.
        return timeline.tick_start_ms(timeline.tick(max(ends_ms)) + 1)

    def reset(self) -> None:
        """Drop the values that may outlive the layers."""
        self.bucket.reset()
        self.state.rate, self.state.learning, self.state.throttle.ended_ms = SampledRate(), Learning(), 0

    def free_below(self, tick: int) -> int:
        """Return the PID below which unseen PIDs take no token at a tick, because of learning; 0 without learning."""
        at_ms = self.deployment.timeline.tick_start_ms(tick)
        return max(self.deployment.learning.free_below(at_ms), self.state.learning.free_below(at_ms))

    def store_charged(self, pid_hash: int, tick: int) -> None:
        """Store an unseen PID that takes a token. There is always room for it."""
        self.filter.store(pid_hash, self.deployment.timeline.quantum(tick))
        self.bucket.take_token(tick)

    def store_uncharged(self, pid_hash: int, quantum: int, current: int) -> bool:
        """Store an unseen PID that takes no token. Without room, count the PID in the quantum `current`.

        Returns:
            Whether the PID was stored.
        """
        is_stored = self.filter.store(pid_hash, quantum, self._max_uncharged_bytes())
        if not is_stored:
            self.window.open(current).leave_out(pid_hash, has_quota=self.bucket.has_quota)
        return is_stored

    def refresh(self, pid_hash: int, quantum: int, current: int) -> None:
        """Copy a known PID to `quantum` if only earlier quanta hold the PID, and if there is room.

        Without such copies, a PID that is in use for longer than a window would be new again. `current` is the clock's
        quantum, which counts PIDs that could not be copied.
        """
        source = self.filter.find(pid_hash)
        if source is None or source.number >= quantum:
            return
        # Quanta before a late event's quantum may have expired, so `may_refresh` can't count their entries. Only
        # the maximum size limits refreshes in that quantum.
        may_refresh = quantum < current or self.filter.may_refresh(quantum)
        if may_refresh and not self.filter.refresh(pid_hash, source, quantum, self._max_uncharged_bytes()):
            # The PID stays known until `source` expires. `WindowCounts.advance` checks whether there are more such PIDs
            # than false positives explain.
            self.window.open(current).unrefreshed.add(pid_hash)

    def _max_uncharged_bytes(self) -> int:
        """Return the filter's maximum size. The PIDs that take tokens, and their refreshes, always fit."""
        config = self.deployment.config
        rate = self.limit.producer_ids_rate or 0
        pids = (self.bucket.burst() or 0) + self.bucket.debt() + rate * (1 + 1 / config.layer_count)
        return max(config.max_uncharged_bytes, self.filter.bytes_for(pids))
