"""Notices of an enforcer's actions."""

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal

from broker.enforcement.model import Lease, Target

NoticeAction = Literal[
    "throttled",
    "extended",
    "shortened",
    "restored",
    "relinquished",
    "failed",
    "skipped",
    "trying again",
    "released",
    "alert",
    "lock",
    "lever",
    "seen",
]


@dataclass(frozen=True)
class Notice:
    """An action that an enforcer took or skipped."""

    at_ms: int
    action: NoticeAction
    why: str
    principal: str | None = None
    target: Target | None = None
    lease: Lease | None = None
    decision_id: str | None = None
    until_ms: int | None = None

    @classmethod
    def of(cls, lease: Lease, at_ms: int, action: NoticeAction, why: str) -> "Notice":
        """Make a notice about a lease."""
        return cls(at_ms, action, why, lease.principal, lease.target, lease, lease.decision_id, lease.until_ms)

    def line(self, *, dry_run: bool = False) -> str:
        """Return the notice as a line of text."""
        words = [format_time(self.at_ms), f"[dry run] {self.action}" if dry_run else self.action]
        if self.principal:
            words.append(self.principal)
        if self.target:
            words.append(f"({self.target}{_values(self.action, self.lease)})")
        if self.until_ms is not None and self.action in ("throttled", "extended", "shortened", "released"):
            words.append(f"until {format_time(self.until_ms)}")
        decision = f" [decision {self.decision_id}]" if self.decision_id else ""
        return f"{' '.join(words)}: {self.why}{decision}"

    def record(self, *, dry_run: bool = False) -> dict[str, Any]:
        """Return the notice as JSON-ready fields."""
        entity = self.target.entity if self.target else None
        return {
            "at": format_time(self.at_ms),
            "action": self.action,
            "dry_run": dry_run,
            "principal": self.principal,
            "lever": self.target.lever if self.target else None,
            "user": entity.user if entity else None,
            "client_id": entity.client_id if entity else None,
            "ip": entity.ip if entity else None,
            "previous_value": self.lease.previous if self.lease else None,
            "new_value": self.lease.value if self.lease else None,
            "until": None if self.until_ms is None else format_time(self.until_ms),
            "decision_id": self.decision_id,
            "why": self.why,
        }


def format_time(ms: int) -> str:
    """Format a time as ISO 8601 UTC, to the millisecond.

    Examples:
        >>> format_time(0)
        '1970-01-01T00:00:00.000Z'
    """
    return datetime.fromtimestamp(ms / 1000, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def format_value(value: float | None) -> str:
    """Format a quota. An unset quota becomes `none`.

    Examples:
        >>> format_value(None), format_value(0.01)
        ('none', '0.01')
    """
    return "none" if value is None else f"{value:g}"


def _values(action: NoticeAction, lease: Lease | None) -> str:
    if lease is None:
        return ""
    if lease.value is None:
        return " is over" if action in ("restored", "failed") else ""
    if action in ("restored", "failed"):
        return f" is {format_value(lease.previous)}"
    if action == "relinquished":
        return f" is no longer {format_value(lease.value)}"
    return f": {format_value(lease.value)}, was {format_value(lease.previous)}"
