"""Tells a reconciler from an admin: both remove what the enforcer sets.

Strimzi's User Operator removes quotas and ACLs of users that no KafkaUser names (its `QuotasOperator` and
`SimpleAclOperator`). After a lease's value vanished, the same is set for a user that does not exist. Whoever removes
that, too, removes whatever it does not know; an admin leaves it alone.
"""

from collections.abc import Callable
from typing import Protocol

from broker.enforcement.model import Clocks
from broker.enforcement.notices import Notice
from broker.enforcement.pace import Pace
from broker.errors import BrokerError

CANARY = "pid-quota-canary"
"""Name of a user that does not exist."""

_WATCH_MS = 600_000
"""Longer than the intervals of reconcilers (Strimzi: 2 minutes)."""
_VERDICT_MS = 3_600_000
_LOOK_EVERY_MS = 1_000


class CanaryValue(Protocol):
    """What a lever sets, for the user `CANARY`."""

    def set(self) -> None:
        """Set it."""

    def is_set(self) -> bool:
        """Whether the brokers have it."""

    def unset(self) -> None:
        """Remove it."""


class Canary:
    """Watches a value that nobody else knows."""

    def __init__(self, value: CanaryValue, what: str, clocks: Clocks, notify: Callable[[Notice], None]) -> None:
        self._value, self._what, self._clocks, self._notify = value, what, clocks, notify
        self._pace = Pace(clocks.steady_ms, _LOOK_EVERY_MS)
        self._set_ms: int | None = None
        self._verdict_ms: int | None = None

    @property
    def is_watched(self) -> bool:
        """Whether the value is there on purpose."""
        return self._set_ms is not None

    def suspect(self) -> None:
        """Begin to watch, since a lease's value vanished."""
        if self._set_ms is None and not self._is_known():
            try:
                self._value.set()
            except BrokerError:
                return
            self._set_ms = self._clocks.steady_ms()

    def reconciler_reason(self) -> str:
        """Return what is known of a reconciler; empty if there is none."""
        return f"something removes {self._what} that it does not know" if self._is_known() else ""

    def look(self) -> None:
        """Look whether the value is there, once a second at most."""
        if self._set_ms is None or not self._pace.is_due():
            return
        now_ms = self._clocks.steady_ms()
        if self._value.is_set():
            if now_ms > self._set_ms + _WATCH_MS:
                self.close()
            return
        lasted_s = (now_ms - self._set_ms) / 1000
        self._set_ms, self._verdict_ms = None, now_ms + _VERDICT_MS
        why = (
            f"something removes {self._what} that it does not know: those of user {CANARY!r}, which does not exist, "
            f"were gone after {lasted_s:.0f} s. Strimzi's User Operator does that to users without a KafkaUser: "
            "docs/kubernetes/README.md tells which lever it leaves alone"
        )
        self._notify(Notice(self._clocks.now_ms(), "alert", why))

    def close(self) -> None:
        """Remove the value."""
        if self._set_ms is not None:
            self._set_ms = None
            self._value.unset()

    def _is_known(self) -> bool:
        return self._verdict_ms is not None and self._clocks.steady_ms() < self._verdict_ms
