"""Watches the demo's tables while the traffic runs, and reports the first decision and throttle."""

import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from jobs.demo.clients import Clients
from jobs.demo.demo_view import DemoView, read_principals
from jobs.stream.stream_progress import StreamProgress
from tables.query.sql_query import query

_READ_EVERY_S = 4.0
_THROTTLED = "SELECT DISTINCT principal FROM throttle_decisions WHERE action = 'THROTTLE'"
_SLOWED = "SELECT DISTINCT principal FROM enforcement_actions WHERE state = 'in_force'"


@dataclass(frozen=True)
class Slowing:
    """Seconds of traffic, and messages of the demo's user `mallory`, before the enforcer held her back."""

    after_s: float
    delivered: int

    def before(self) -> float:
        """Return mallory's new producer ids per second before the enforcer held her back."""
        return self.delivered / self.after_s

    def after(self, delivered: int, seconds: float) -> float:
        """Return mallory's new producer ids per second since the enforcer held her back. The arguments are totals."""
        return (delivered - self.delivered) / max(1.0, seconds - self.after_s)


class Watching:
    """An observer of the traffic. Create it when the traffic begins.

    Attributes:
        first_decision_s: Seconds of traffic before the first THROTTLE decision.
        slowing: The traffic before the enforcer held mallory back.
    """

    def __init__(self, view: DemoView, tables: str, progress: StreamProgress, clients: Clients) -> None:
        self._view, self._tables, self._progress, self._clients = view, tables, progress, clients
        self._begin = time.monotonic()
        self._stream_begin: float | None = None
        self._next_read = self._begin
        self._versions: dict[str, int] = {}
        self.first_decision_s: float | None = None
        self.slowing: Slowing | None = None

    @property
    def seconds(self) -> float:
        """Seconds since the traffic began."""
        return time.monotonic() - self._begin

    @property
    def has_begun(self) -> bool:
        """Whether the stream has committed a batch."""
        if self._stream_begin is None and self._progress.committed() is not None:
            self._stream_begin = time.monotonic()
        return self._stream_begin is not None

    def has_run_for(self, seconds: float) -> bool:
        """Return whether the stream committed its first batch at least `seconds` ago."""
        return self.has_begun and time.monotonic() - (self._stream_begin or 0.0) >= seconds

    def look(self) -> None:
        """Report the first decision and the first hold on mallory, and show the principals."""
        if self.first_decision_s is None and self._has_new("throttle_decisions") and self.throttled():
            self.first_decision_s = self.seconds
            self._view.stage(f"first decision, {self.seconds:.1f} s after the first message: mallory is over her quota")
        if self.slowing is None and self._has_new("enforcement_actions") and query(self._tables, _SLOWED, _now()).rows:
            self.slowing = Slowing(self.seconds, self._clients.mallory.delivered)
            self._view.stage("the enforcer holds mallory back: the broker hands her no new producer id")
        if not self.has_begun:
            mallory, alice = self._clients.mallory.producers, self._clients.alice.producers
            made = f"mallory has made {mallory} producers, alice {alice}"
            self._view.update([], f"Spark is starting, so nothing is counted yet: {made}")
        elif time.monotonic() >= self._next_read:
            self._next_read = time.monotonic() + _READ_EVERY_S
            self._view.update(read_principals(self._tables, _now()), f"{self.seconds:.0f} s of traffic")

    def throttled(self) -> frozenset[str]:
        """Return the principals with a THROTTLE decision."""
        return frozenset(row[0] for row in query(self._tables, _THROTTLED, _now()).rows)

    def _has_new(self, table: str) -> bool:
        version = sum(1 for _ in Path(self._tables, table, "_delta_log").glob("*.json"))
        before, self._versions[table] = self._versions.get(table), version
        return before is not None and version != before


def _now() -> datetime:
    return datetime.now(timezone.utc)
