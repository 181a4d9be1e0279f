"""The rules of leases: a client quota of ours, what it was before, and until when it holds. No I/O, no clock.

A lease is written down before the broker hears of it, and every change of its state is a row of its own:

    applying ──▶ in_force ──▶ restoring ──▶ restored
        │            │             │
        └────────────┴─────────────┴──▶ relinquished   (somebody else changed the quota: it is theirs)
        └──▶ failed                              (Kafka refused it: nothing was changed)

Each step first looks at the quota that the broker holds, so that any step may be repeated after a crash.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from broker.cluster.quota_entity import QuotaEntity

LeaseState = Literal["applying", "in_force", "restoring", "restored", "relinquished", "failed"]
ActionState = Literal["applying", "in_force", "restoring", "restored", "relinquished", "failed", "hold", "alert"]
Step = Literal["keep", "apply", "confirm", "restore", "close", "relinquish"]

OPEN_STATES: tuple[LeaseState, ...] = ("applying", "in_force", "restoring")
CLOCK_SLACK_MS = 5_000
"""Clocks of two hosts may differ by so much; one that is further behind a lease's own time was set back."""


@dataclass(frozen=True)
class Lease:
    """A client quota that we set, or are about to set.

    Attributes:
        lease_id: Names the lease in all its rows.
        principal: Who is throttled, such as `User:mallory`.
        entity: Whose quota it is.
        quota_key: Such as `request_percentage`.
        previous: The value before; None if there was none.
        enforced: Our value.
        until_ms: When it ends, in milliseconds since the epoch.
        decision_id: The decision that it carries out.
        state: See the module.
        set_ms: When its end was set, in milliseconds since the epoch.
    """

    lease_id: str
    principal: str
    entity: QuotaEntity
    quota_key: str
    previous: float | None
    enforced: float
    until_ms: int
    decision_id: str
    state: LeaseState = "applying"
    set_ms: int = 0

    @property
    def is_open(self) -> bool:
        """Whether the broker may hold our value."""
        return self.state in OPEN_STATES

    def is_due(self, now_ms: int) -> bool:
        """Whether its time has come, or the clock is behind the time at which it was set: if in doubt, open."""
        return self.until_ms <= now_ms or now_ms < self.set_ms - CLOCK_SLACK_MS

    def to(self, state: LeaseState) -> Lease:
        """Return the lease in another state."""
        return replace(self, state=state)


@dataclass(frozen=True)
class Action:
    """A row of `enforcement_actions`.

    Attributes:
        recorded_at_ms: When it was written down, in milliseconds since the epoch.
        state: The lease's new state; `hold` for an order to leave principals alone, `alert` for a warning.
        principal: Whom it is about; None in a `hold` means everybody.
        until_ms: End of the lease or the hold.
        reason: In words, why.
        lease: The lease as it is from now on; None in a `hold` or an `alert`.
        enforcer: Which process wrote it.
    """

    recorded_at_ms: int
    state: ActionState
    principal: str | None
    until_ms: int | None
    reason: str
    lease: Lease | None = None
    enforcer: str = ""


def action_of_lease(lease: Lease, now_ms: int, reason: str, enforcer: str) -> Action:
    """Return the row that says a lease's state."""
    return Action(now_ms, lease.state, lease.principal, lease.until_ms, reason, lease, enforcer)


def next_step(lease: Lease, found: float | None, now_ms: int) -> Step:
    """Say what to do about an open lease.

    Args:
        lease: As it was last written down.
        found: The value that the broker holds now; None if it holds none.
        now_ms: The time.

    Returns:
        keep: Nothing is to be done.
        apply: Set our value.
        confirm: Our value is there, only the row is missing.
        restore: Set the previous value.
        close: The previous value is there, only the row is missing.
        relinquish: The value is neither ours nor the previous one, or ours was taken away: it is somebody else's.

    Examples:
        >>> lease = Lease("1", "User:m", QuotaEntity("m"), "request_percentage", None, 0.01, 2000, "d")
        >>> [next_step(lease, None, 1000), next_step(lease, 0.01, 1000), next_step(lease, 7.0, 1000)]
        ['apply', 'confirm', 'relinquish']
        >>> [next_step(lease.to("in_force"), value, 2000) for value in (0.01, None, 7.0)]
        ['restore', 'close', 'relinquish']
    """
    ending = lease.state == "restoring" or lease.is_due(now_ms)
    if found == lease.enforced:
        if ending:
            return "restore"
        return "confirm" if lease.state == "applying" else "keep"
    if found != lease.previous:
        return "relinquish"
    if ending:
        return "close"
    # Before our first `in_force` the previous value means that we did not come to it; after it, that it was put back.
    return "apply" if lease.state == "applying" else "relinquish"


def open_leases(actions: Iterable[Action]) -> dict[QuotaEntity, Lease]:
    """Return the leases that are still open after these rows, in whatever order: a clock may have been set back."""
    newest: dict[str, Lease] = {}
    for action in actions:
        lease = action.lease
        if lease and (lease.lease_id not in newest or _progress(newest[lease.lease_id]) <= _progress(lease)):
            newest[lease.lease_id] = lease
    return {lease.entity: lease for lease in newest.values() if lease.is_open}


def _progress(lease: Lease) -> tuple[int, int]:
    # States only ever go forward, and ends only ever later.
    return (OPEN_STATES.index(lease.state) if lease.is_open else len(OPEN_STATES), lease.until_ms)


def narrowed_client_ids(actions: Iterable[Action]) -> dict[str, set[str]]:
    """Return the client ids that ever had a lease of their own, by user."""
    found: dict[str, set[str]] = {}
    for action in actions:
        entity = action.lease.entity if action.lease else None
        if entity and entity.user is not None and entity.client_id is not None:
            found.setdefault(entity.user, set()).add(entity.client_id)
    return found


def hands_off(actions: Iterable[Action], hands_off_ms: int) -> dict[QuotaEntity, int]:
    """Return until when entities are left alone because somebody else changed their quota under a lease of ours."""
    return {
        action.lease.entity: action.recorded_at_ms + hands_off_ms
        for action in actions
        if action.lease and action.state == "relinquished"
    }


@dataclass(frozen=True)
class Holds:
    """Orders to leave principals alone (`--release`, `--release-all`).

    Attributes:
        everybody_until_ms: End of the hold on all principals.
        until_ms: End of the hold by principal.
    """

    everybody_until_ms: int
    until_ms: Mapping[str, int]

    @classmethod
    def of(cls, actions: Iterable[Action]) -> Holds:
        """Collect the holds of these rows; a later order replaces an earlier one."""
        everybody, until = 0, {}
        for action in actions:
            if action.state != "hold":
                continue
            if action.principal is None:
                everybody = action.until_ms or 0
            else:
                until[action.principal] = action.until_ms or 0
        return cls(everybody, until)

    def covers(self, principal: str, now_ms: int) -> bool:
        """Whether a principal is to be left alone now."""
        return now_ms < max(self.everybody_until_ms, self.until_ms.get(principal, 0))
