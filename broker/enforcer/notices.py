"""Notices of what an enforcer does: a line for people, a record for programs."""

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal

from broker.cluster.hold_bindings import HOLD
from broker.cluster.quota_entity import QuotaEntity
from broker.leases.lease_rules import Lease

NoticeKind = Literal[
    "throttled",
    "extended",
    "shortened",
    "restored",
    "relinquished",
    "failed",
    "skipped",
    "trying again",
    "held",
    "alert",
    "lock",
    "lever",
    "seen",
]


@dataclass(frozen=True)
class Notice:
    """An action that an enforcer took or skipped.

    Attributes:
        at_ms: When, in milliseconds since the epoch.
        kind: The action.
        why: The reason, in words.
        principal: Whose producers it concerns.
        entity: Whose quota it concerns.
        lease: Holds the previous and the enforced value.
        decision_id: The decision that caused it.
        until_ms: When the lease or hold ends, in milliseconds since the epoch.
    """

    at_ms: int
    kind: NoticeKind
    why: str
    principal: str | None = None
    entity: QuotaEntity | None = None
    lease: Lease | None = None
    decision_id: str | None = None
    until_ms: int | None = None

    @classmethod
    def of(cls, lease: Lease, at_ms: int, kind: NoticeKind, why: str) -> "Notice":
        """Make a notice of a lease."""
        return cls(at_ms, kind, why, lease.principal, lease.entity, lease, lease.decision_id, lease.until_ms)

    def line(self, *, dry_run: bool = False) -> str:
        """Return one line: time, action, principal, end, reason."""
        words = [time_text(self.at_ms), f"[dry run] {self.kind}" if dry_run else self.kind]
        if self.principal:
            words.append(self.principal)
        if self.lease:
            words.append(f"({self.lease.entity}: {self.lease.quota_key} {_values(self.kind, self.lease)})")
        elif self.entity:
            words.append(f"({self.entity})")
        if self.until_ms is not None and self.kind in ("throttled", "extended", "shortened", "held"):
            words.append(f"until {time_text(self.until_ms)}")
        decision = f" [decision {self.decision_id}]" if self.decision_id else ""
        return f"{' '.join(words)}: {self.why}{decision}"

    def record(self, *, dry_run: bool = False) -> dict[str, Any]:
        """Return the notice as JSON-ready fields."""
        entity = self.entity or (self.lease.entity if self.lease else None)
        return {
            "at": time_text(self.at_ms),
            "action": self.kind,
            "dry_run": dry_run,
            "principal": self.principal,
            "user": entity.user if entity else None,
            "client_id": entity.client_id if entity else None,
            "ip": entity.ip if entity else None,
            "quota_key": self.lease.quota_key if self.lease else None,
            "previous_value": self.lease.previous if self.lease else None,
            "new_value": self.lease.enforced if self.lease else None,
            "until": None if self.until_ms is None else time_text(self.until_ms),
            "decision_id": self.decision_id,
            "why": self.why,
        }


def time_text(ms: int) -> str:
    """Format a time as ISO 8601 UTC, to the millisecond.

    Examples:
        >>> time_text(0)
        '1970-01-01T00:00:00.000Z'
    """
    return datetime.fromtimestamp(ms / 1000, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def value_text(value: float | None) -> str:
    """Format a quota; `none` if it is unset.

    Examples:
        >>> value_text(None), value_text(0.01)
        ('none', '0.01')
    """
    return "none" if value is None else f"{value:g}"


def lever_text(key: str, value: float | None) -> str:
    """Format the value of a lever: a quota, or the end of a hold.

    Examples:
        >>> lever_text("request_percentage", 0.01), lever_text("hold", 0.0), lever_text("hold", None)
        ('0.01', 'until 1970-01-01T00:00:00.000Z', 'none')
    """
    return f"until {time_text(round(value))}" if key == HOLD and value is not None else value_text(value)


def _values(kind: NoticeKind, lease: Lease) -> str:
    if lease.entity.is_hold:
        return "is over" if kind in ("restored", "failed") else lever_text(lease.quota_key, lease.enforced)
    if kind in ("restored", "failed"):
        return f"is {value_text(lease.previous)}"
    if kind == "relinquished":
        return f"no longer {value_text(lease.enforced)}"
    return f"{value_text(lease.enforced)}, was {value_text(lease.previous)}"
