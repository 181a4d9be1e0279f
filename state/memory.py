"""The decoded state of one ledger."""

from quota.limits import Limit
from quota.rate import SampledRate
from state.budget import Budget
from state.codec import LedgerState, encode
from state.events import Deployment
from state.layers import LayeredBloomFilter
from state.learning import Learning
from state.window import WindowCounts


class Memory:
    """The parts of a stored ledger, and values that depend on several parts. Not thread-safe.

    Attributes:
        state: The stored struct. `to_bytes` updates the struct from the other parts.
        reported: The bytes at the last metrics row; None for a new ledger.
    """

    def __init__(self, deployment: Deployment, state: LedgerState, content: bytes | None) -> None:
        """Open the ledger `state`, which was decoded from `content` (None for a new ledger)."""
        config, timeline = deployment.config, deployment.timeline
        self.deployment = deployment
        self.state = state
        self.seen = LayeredBloomFilter(config, timeline.quantum(max(0, self.state.clock_tick)), self.state.quanta)
        self.budget = Budget(config, timeline, self.state.bucket)
        self.window = WindowCounts(self.state.counts, config)
        self.reported = content
        self.budget.apply(self.limit)

    @property
    def limit(self) -> Limit:
        """The quota in force."""
        return self.state.limit

    def put_in_force(self, limit: Limit) -> None:
        """Set the quota in force. Its numbers become floats, so that equal ledgers have equal bytes."""
        numbers = (limit.producer_ids_rate, limit.producer_ids_burst)
        rate, burst = (None if each is None else float(each) for each in numbers)
        self.state.limit = Limit(rate, limit.source, limit.updated_at_ms, burst)

    def to_bytes(self) -> bytes:
        """Return the bytes to store."""
        self.state.quanta = self.seen.state()
        self.state.bucket = self.budget.parts()
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
            self.budget.full_ms(),
            state.rate.expires_ms(config),
            state.episode.throttled_until_ms if state.episode else 0,
            state.learning.until_ms,
        )
        # Rules apply at whole ticks.
        return timeline.tick_start_ms(timeline.tick(max(ends_ms)) + 1)

    def free_below(self, tick: int) -> int:
        """Return the PID below which unseen PIDs take no token at a tick, because of learning; 0 without learning."""
        at_ms = self.deployment.timeline.tick_start_ms(tick)
        return max(self.deployment.learning.free_below(at_ms), self.state.learning.free_below(at_ms))

    def reset(self) -> None:
        """Drop the values that may outlive the layers."""
        self.budget.reset()
        self.state.rate, self.state.learning, self.state.ended_ms = SampledRate(), Learning(), 0
