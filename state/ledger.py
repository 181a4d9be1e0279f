"""Applies the rules of KIP-936 to one principal's events, in offset order.

The ledger is written if its bytes differ from the stored bytes. Another metrics row is due if the bytes differ from
those at the last row.
"""

from functools import cached_property

from quota.limits import Limit
from state.codec import LedgerState, decode
from state.events import Deployment, Events, Outcome
from state.journal import Journal
from state.learning import Learning
from state.ledger_batch import LedgerBatch
from state.memory import Memory
from state.noop_check import changes_nothing


class Ledger:
    """The ledger of one principal. Not thread-safe.

    Examples:
        >>> from quota.limits import UNLIMITED, Limit
        >>> ledger = Ledger("User:mallory", Deployment())
        >>> flood = Events(list(range(150)), [0] * 150, [("", "")] * 150, [0] * 150)
        >>> outcome = ledger.process(flood, Limit(100.0, "user"))
        >>> outcome.metrics[-1].admitted_pids, outcome.metrics[-1].refused_pids, outcome.decisions[0].action
        (101, 49, 'THROTTLE')
    """

    def __init__(self, principal: str, deployment: Deployment, content: bytes | None = None) -> None:
        """Open a ledger.

        Args:
            principal: The ledger's principal.
            deployment: Settings that all ledgers share.
            content: Result of `to_bytes`; None for a new principal.

        Raises:
            LedgerCodecError: If this release can't read `content`.
        """
        self._principal = principal
        self._deployment = deployment
        self._stored = content
        self._state = decode(content) if content else LedgerState()

    @cached_property
    def _memory(self) -> Memory:
        """The ledger's parts. The quick check (`state.noop_check`) does not need them."""
        self._stored, content = None, self._stored
        return Memory(self._deployment, self._state, content)

    def to_bytes(self) -> bytes:
        """Return the bytes to store."""
        return self._stored or self._memory.to_bytes()

    def extend_learning(self, learning: Learning) -> None:
        """Let unseen PIDs be free for a time, because the ledger's state was lost."""
        state = self._memory.state
        state.learning = state.learning.later(learning)

    def expires_ms(self) -> int:
        """Return the event time after which this ledger affects no event."""
        return self._memory.expires_ms()

    def expire(self) -> Outcome:
        """Return the last rows, dated `expires_ms`: a pending RELEASE, and a metrics row with rate 0."""
        return self.batch(self._memory.limit, self.expires_ms()).end()

    def process(self, events: Events, limit: Limit) -> Outcome:
        """Apply events in offset order under a quota. A repeat of a PID within a tick changes nothing."""
        if self._stored and events.pids and changes_nothing(self._state, events, limit, self._deployment):
            return Outcome((), (), self._stored)
        batch = self.batch(limit, events.timestamps_ms[0] if events.pids else 0)
        batch.feed(events)
        return batch.end()

    def throttled_until_ms(self) -> int:
        """Return when the throttle ends, in ms since the epoch; 0 if no throttle is in force."""
        return self._memory.state.throttle.until_ms()

    def change_quota(self, limit: Limit, at_ms: int) -> Outcome | None:
        """Apply a changed quota to the throttle in force at `at_ms` (ms since the epoch).

        Returns:
            None if no throttle is in force, or the quota is unchanged.
        """
        is_throttled = at_ms < self.throttled_until_ms()
        return self.batch(limit, at_ms).end() if is_throttled and not limit.counts_as(self._memory.limit) else None

    def batch(self, limit: Limit, first_ms: int) -> LedgerBatch:
        """Open a batch that begins at `first_ms` (ms since the epoch). End it before you open the next batch."""
        memory = self._memory
        return LedgerBatch(memory, Journal(self._principal, memory), limit, first_ms)
