"""The ledger of one principal: applies the rules of KIP-936 to its produce events, in offset order.

Changes are not tracked. A batch returns the ledger's bytes. If they differ from the stored bytes, the ledger is
written. If they differ from the bytes at the last metrics row, a metrics row is due.
"""

from functools import cached_property

from quota.limits import Limit
from state.codec import LedgerState, decode
from state.events import Deployment, Events, Outcome
from state.journal import Journal
from state.ledger_batch import LedgerBatch
from state.memory import Memory
from state.noop_check import changes_nothing


class Ledger:
    """The ledger of one principal. Not thread-safe.

    Examples:
        >>> from quota.limits import UNLIMITED, Limit
        >>> ledger = Ledger("User:mallory", Deployment())
        >>> flood = Events(list(range(150)), [0] * 150, [("", "")] * 150, [False] * 150)
        >>> outcome = ledger.process(flood, Limit(100.0, "user"))
        >>> outcome.metrics[-1].admitted_pids, outcome.metrics[-1].refused_pids, outcome.decisions[0].action
        (101, 49, 'THROTTLE')
    """

    def __init__(
        self, principal: str, deployment: Deployment, content: bytes | None = None, broker_id: int | None = None
    ) -> None:
        """Open a ledger.

        Args:
            principal: KafkaPrincipal that the ledger belongs to.
            deployment: Settings that all ledgers share.
            content: The bytes of `to_bytes`, or None for a principal never seen before.
            broker_id: Broker that the budget is for, None if it is for the cluster.

        Raises:
            LedgerCodecError: If the bytes are not a ledger that this version can read.
        """
        self._principal = principal
        self._broker_id = broker_id
        self._deployment = deployment
        self._stored = content
        self._state = decode(content) if content else LedgerState()

    @cached_property
    def _memory(self) -> Memory:
        """The ledger's parts, built on first use: the quick check (`state.noop_check`) does not need them."""
        self._stored, content = None, self._stored
        return Memory(self._deployment, self._state, content)

    def to_bytes(self) -> bytes:
        """Return the ledger's stored bytes."""
        return self._stored or self._memory.to_bytes()

    def learn_again(self, until_ms: int) -> None:
        """Store unseen PIDs without charge until an event time, after the state was lost."""
        state = self._memory.state
        state.learn_until_ms = max(state.learn_until_ms, until_ms)

    def expires_ms(self) -> int:
        """Return the event time after which this ledger affects no event, in milliseconds since the epoch."""
        return self._memory.expires_ms()

    def expire(self) -> Outcome:
        """Return the principal's last rows, as of `expires_ms`: a pending RELEASE, and a metrics row of rate 0."""
        return self.batch(self._memory.limit, self.expires_ms()).end()

    def process(self, events: Events, limit: Limit) -> Outcome:
        """Apply events in offset order under the quota in force.

        Args:
            events: The events; repeats of a PID within a tick may be left out.
            limit: The quota in force for the whole batch.
        """
        if self._stored and events.pids and changes_nothing(self._state, events, limit, self._deployment):
            return Outcome((), (), self._stored)
        batch = self.batch(limit, events.timestamps_ms[0] if events.pids else 0)
        batch.feed(events)
        return batch.end()

    def throttled_until_ms(self) -> int:
        """Return when the throttle ends, in milliseconds since the epoch; 0 without one."""
        episode = self._memory.state.episode
        return episode.throttled_until_ms if episode else 0

    def change_quota(self, limit: Limit, at_ms: int) -> Outcome | None:
        """If the principal is throttled, apply a changed quota without an event: the throttle may end sooner.

        Args:
            limit: The quota in force.
            at_ms: The time of the batch, in milliseconds since the epoch.

        Returns:
            None if nothing changes.
        """
        return self.batch(limit, at_ms).end() if self.is_throttled_by_another(limit, at_ms) else None

    def batch(self, limit: Limit, first_ms: int) -> LedgerBatch:
        """Open a batch. You must end it before you open the next one.

        Args:
            limit: The quota in force for the whole batch.
            first_ms: Time of the batch's first event, in milliseconds since the epoch.
        """
        memory = self._memory
        return LedgerBatch(memory, Journal(self._principal, self._broker_id, memory), limit, first_ms)

    def knows(self, pid_hash: int, timestamp_ms: int) -> bool:
        """Return whether a PID is known at a time, which may be later than this ledger's clock."""
        newest, deployment = self._memory.seen.find(pid_hash), self._memory.deployment
        if newest is None:
            return False
        quantum = deployment.timeline.quantum(deployment.timeline.tick(timestamp_ms))
        return newest.number >= quantum - deployment.config.layer_count

    def is_throttled_by_another(self, limit: Limit, at_ms: int) -> bool:
        """Return whether a throttle in force at a time (ms since the epoch) was decided under another quota."""
        episode = self._memory.state.episode
        holds = episode is not None and at_ms < episode.throttled_until_ms
        return holds and not limit.counts_as(self._memory.limit)
