"""Where the ledger of a principal is stored between batches."""

from typing import Any, Protocol


class Slot(Protocol):
    """Where one principal's ledger is stored."""

    def get(self) -> bytes | None:
        """Return what is stored, None for a principal never seen before."""

    def put(self, content: bytes, look_again_ms: int) -> None:
        """Store, and ask to be called if nothing comes for so long."""

    def remove(self) -> None:
        """Forget."""


class GroupSlot:
    """A state of Spark's own for each principal."""

    def __init__(self, state: Any) -> None:
        """Stand before Spark's `GroupState` of `STATE_SCHEMA`."""
        self._state = state

    def get(self) -> bytes | None:
        """As `Slot.get`."""
        return bytes(self._state.get[0]) if self._state.exists else None

    def put(self, content: bytes, look_again_ms: int) -> None:
        """As `Slot.put`.

        Nowhere else is a timeout set: in a call that changes nothing it would write every row of every batch again.
        """
        self._state.update((content,))
        self._state.setTimeoutDuration(look_again_ms)

    def remove(self) -> None:
        """As `Slot.remove`."""
        self._state.remove()
