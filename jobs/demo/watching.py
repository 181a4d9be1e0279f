"""Watches the demo's tables and broker while the traffic runs, and reports the first decision and hold."""

import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from broker.enforcement.hold_topic import HoldTopic, steady_ms
from jobs.demo.clients import Clients
from jobs.demo.demo_view import DemoView
from tables.query.sql_query import query
from tables.query.top_rows import arranged, read_rows

_READ_EVERY_S = 4.0
_THROTTLED = "SELECT DISTINCT principal FROM throttle_decisions WHERE action = 'THROTTLE'"
_SEEN = "SELECT DISTINCT principal FROM producer_id_metrics"
MALLORY = "User:mallory"
"""The demo's user that creates a producer per message."""


@dataclass(frozen=True)
class Slowing:
    """Seconds of traffic, and messages of the demo's user `mallory`, before the broker held her."""

    after_s: float
    delivered: int

    def before(self) -> float:
        """Return mallory's new producer ids per second before the broker held her."""
        return self.delivered / self.after_s

    def after(self, delivered: int, seconds: float) -> float:
        """Return mallory's new producer ids per second since the broker held her. The arguments are totals."""
        return (delivered - self.delivered) / max(1.0, seconds - self.after_s)


class Watching:
    """An observer of the traffic. Create it when the traffic begins.

    Attributes:
        first_decision_s: Seconds of traffic before the first THROTTLE decision.
        slowing: The traffic before the broker held mallory.
    """

    def __init__(self, view: DemoView, tables: str, clients: Clients, holds: HoldTopic) -> None:
        self._view, self._tables, self._clients, self._holds = view, tables, clients, holds
        self._begin = time.monotonic()
        self._next_read = self._begin + _READ_EVERY_S
        self._versions: dict[str, int] = {}
        self.first_decision_s: float | None = None
        self.slowing: Slowing | None = None

    @property
    def seconds(self) -> float:
        """Seconds since the traffic began."""
        return time.monotonic() - self._begin

    def look(self) -> None:
        """Report the first decision and the first hold on mallory, and show the principals."""
        if self.first_decision_s is None and self._has_new("throttle_decisions") and self.throttled():
            self.first_decision_s = self.seconds
            self._view.stage(f"first decision, {self.seconds:.1f} s after the first message: mallory is over her quota")
        if self.slowing is None:
            self._holds.poll()
            if self._holds.state.confirming(MALLORY, steady_ms()):
                self.slowing = Slowing(self.seconds, self._clients.mallory.delivered)
                self._view.stage("mallory is on hold: the broker hands her new producer ids at her quota's pace")
        if time.monotonic() >= self._next_read:
            self._next_read = time.monotonic() + _READ_EVERY_S
            self._view.update(arranged(read_rows(self._tables, _now()), "name"), f"{self.seconds:.0f} s of traffic")

    def throttled(self) -> frozenset[str]:
        """Return the principals with a THROTTLE decision."""
        return frozenset(row[0] for row in query(self._tables, _THROTTLED, _now()).rows)

    def seen(self) -> frozenset[str]:
        """Return the principals with metrics."""
        return frozenset(row[0] for row in query(self._tables, _SEEN, _now()).rows)

    def _has_new(self, table: str) -> bool:
        version = sum(1 for _ in Path(self._tables, table, "_delta_log").glob("*.json"))
        before, self._versions[table] = self._versions.get(table), version
        return before is not None and version != before


def _now() -> datetime:
    return datetime.now(timezone.utc)
