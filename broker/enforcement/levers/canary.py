"""Finds out whether a reconciler, and not an admin, removes values that the enforcer sets.

Strimzi's User Operator is a reconciler, which removes quotas and ACLs of users without a KafkaUser. After a lease's
value has vanished, the enforcer sets a similar value for the canary, a user that does not exist. Only a reconciler
removes the canary's value.
"""

from collections.abc import Callable
from typing import Protocol

from broker.enforcement.model import CANARY, Clocks, Pace
from broker.enforcement.notices import Notice
from broker.errors import BrokerError

_WATCH_MS = 600_000
"""How long to watch the canary's value. Reconcilers act at shorter intervals (Strimzi: 2 minutes)."""
_KNOWN_MS = 3_600_000
_LOOK_EVERY_MS = 1_000


class CanaryWriter(Protocol):
    """A lever that can also set a value for the user `CANARY`."""

    def has_canary(self) -> bool:
        """Whether the brokers have the canary's value."""

    def write_canary(self, *, is_set: bool) -> None:
        """Set or remove the canary's value."""


class Canary:
    """A watcher of the canary's value."""

    def __init__(self, writer: CanaryWriter, what: str, clocks: Clocks, notify: Callable[[Notice], None]) -> None:
        self._writer, self._what, self._clocks, self._notify = writer, what, clocks, notify
        self._pace = Pace(clocks.steady_ms, _LOOK_EVERY_MS)
        self._set_ms: int | None = None
        self._known_until_ms: int | None = None

    @property
    def is_watched(self) -> bool:
        """Whether this enforcer has set the canary's value."""
        return self._set_ms is not None

    def suspect(self) -> None:
        """Set the canary's value, because a lease's value has vanished."""
        if self._set_ms is None and not self._is_known():
            try:
                self._writer.write_canary(is_set=True)
            except BrokerError:
                return
            self._set_ms = self._clocks.steady_ms()

    def reconciler_reason(self) -> str:
        """Return why a reconciler makes the lever useless, or an empty text."""
        return f"something removes {self._what} that it did not create" if self._is_known() else ""

    def look(self) -> None:
        """Check, at most once a second, that the canary's value is still set. If it is not, notify."""
        if self._set_ms is None or not self._pace.is_due():
            return
        now_ms = self._clocks.steady_ms()
        if self._writer.has_canary():
            if now_ms > self._set_ms + _WATCH_MS:
                self.close()
            return
        lasted_s = (now_ms - self._set_ms) / 1000
        self._set_ms, self._known_until_ms = None, now_ms + _KNOWN_MS
        why = (
            f"something removes {self._what} that it did not create: those of user {CANARY!r}, which does not exist, "
            f"were gone after {lasted_s:.0f} s. Strimzi's User Operator does that to users without a KafkaUser: "
            "docs/kubernetes/README.md names the lever that it leaves alone"
        )
        self._notify(Notice(self._clocks.now_ms(), "alert", why))

    def close(self) -> None:
        """Remove the canary's value."""
        if self._set_ms is not None:
            self._set_ms = None
            self._writer.write_canary(is_set=False)

    def _is_known(self) -> bool:
        return self._known_until_ms is not None and self._clocks.steady_ms() < self._known_until_ms
