"""The ledgers in one Spark state, called a group. A group holds a bucket of principals, or a single principal.

Spark's operator has a high fixed cost per group and batch, so fewer groups are faster. When one ledger changes, the
whole group is written. Grouping changes no decision.
"""

from collections.abc import Container, Mapping
from typing import Any

import msgspec

from state.errors import LedgerCodecError
from state.learning import Learning
from state.pid_uses import NO_USES, PidUses

_MAGIC = b"PQG\x03"
_NEXT_BATCH_MS = 1


class StoredLedger(msgspec.Struct, frozen=True, array_like=True):
    """A ledger in a group. Times are in milliseconds since the epoch.

    Attributes:
        forget_ms: The ledger is evicted when `partition` reaches this event time.
        partition: Topic partition of the ledger's newest event.
        throttled_until_ms: End of the throttle; 0 without a throttle.
        uses: When a sample of the principal's PIDs was used.
    """

    forget_ms: int
    partition: int
    content: bytes
    throttled_until_ms: int = 0
    uses: PidUses = NO_USES


class _Content(msgspec.Struct, array_like=True):
    """A stored group. `learning` is as in `LedgerGroup`."""

    ledgers: dict[str, StoredLedger] = msgspec.field(default_factory=dict)
    learning: Learning = Learning()


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Content)


class LedgerGroup:
    """The ledgers of one group during a batch."""

    def __init__(self, state: Any, learning: Learning | None = None) -> None:
        """Decode a group.

        Args:
            state: Spark's `GroupState` of `streaming.operator.ledger_operator.STATE_SCHEMA`.
            learning: If None, read the stored group. Else start an empty group, whose ledgers learn.

        Raises:
            LedgerCodecError: If this version can't read the stored group.
        """
        self._state = state
        self._has_changed = learning is not None
        if learning is not None:
            self._content = _Content({}, learning)
        else:
            self._content = _read(bytes(state.get[0])) if state.exists else _Content()

    @property
    def learning(self) -> Learning:
        """The learning time of the group's new ledgers, after the group was lost."""
        return self._content.learning

    def get(self, principal: str) -> StoredLedger | None:
        """Return a principal's ledger; None without a ledger."""
        return self._content.ledgers.get(principal)

    def put(self, principal: str, held: StoredLedger | None) -> None:
        """Set a principal's ledger, or remove the ledger if `held` is None."""
        if held == self._content.ledgers.get(principal):
            return
        self._has_changed = True
        if held is None:
            del self._content.ledgers[principal]
        else:
            self._content.ledgers[principal] = held

    def throttled(self, but: Container[str]) -> dict[str, StoredLedger]:
        """Return the throttled ledgers by principal, except those of the principals in `but`."""
        held_by = self._content.ledgers.items()
        return {name: held for name, held in sorted(held_by) if held.throttled_until_ms and name not in but}

    def expired(self, event_times: Mapping[int, int], but: Container[str]) -> list[str]:
        """Return the principals whose ledger must be evicted, except those in `but`."""
        return sorted(
            principal
            for principal, held in self._content.ledgers.items()
            if held.forget_ms <= event_times.get(held.partition, 0) and principal not in but
        )

    def store(self, event_times: Mapping[int, int], look_again_ms: int) -> None:
        """If the group has changed, update the state, and set the timeout to the time when a ledger may next expire.

        A new timeout rewrites the group, so an unchanged group gets one only after its timeout has fired. A timeout
        that has fired fires in each later batch until it is replaced. A group with a throttle keeps its fired timeout,
        so that the operator applies a changed quota to throttled principals without events.

        `look_again_ms` is the minimum timeout of a group without a throttle.
        """
        ledgers = self._content.ledgers
        is_throttled = any(held.throttled_until_ms for held in ledgers.values())
        if not (self._has_changed or (self._state.hasTimedOut and not is_throttled)):
            return
        if not ledgers:
            self._state.remove()
            return
        self._state.update((_MAGIC + _encoder.encode(self._content),))
        left_ms = min(held.forget_ms - event_times.get(held.partition, held.forget_ms) for held in ledgers.values())
        self._state.setTimeoutDuration(_NEXT_BATCH_MS if is_throttled else max(left_ms, look_again_ms))


def _read(stored: bytes) -> _Content:
    if not stored.startswith(_MAGIC):
        found = stored[: len(_MAGIC)]
        msg = f"state has the form {found!r}, this release reads {_MAGIC!r}: it restarts in learning mode for a window"
        raise LedgerCodecError(msg)
    try:
        return _decoder.decode(memoryview(stored)[len(_MAGIC) :])
    except msgspec.MsgspecError as error:
        msg = f"state of {len(stored)} bytes does not decode: {error}"
        raise LedgerCodecError(msg) from error
