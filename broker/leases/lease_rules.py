"""The state machine of leases: a client quota we set, its previous value, and its end. No I/O, no clock.

A lease is logged before the broker is changed, and every change of its state is a row of its own:

    applying ──▶ in_force ──▶ restoring ──▶ restored
        │            │             │
        └────────────┴─────────────┴──▶ relinquished   (someone else changed the quota: it is theirs)
        └──▶ failed                              (Kafka refused it: nothing changed)

Each step first reads the quota that the broker holds, so any step can be repeated after a crash.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from broker.cluster.former_refusals import REFUSE
from broker.cluster.hold_bindings import HOLD
from broker.cluster.quota_entity import QuotaEntity

LeaseState = Literal["applying", "in_force", "restoring", "restored", "relinquished", "failed"]
ActionState = Literal["applying", "in_force", "restoring", "restored", "relinquished", "failed", "hold", "alert"]
Step = Literal["keep", "apply", "confirm", "restore", "close", "relinquish"]

OPEN_STATES: tuple[LeaseState, ...] = ("applying", "in_force", "restoring")
CLOCK_SLACK_MS = 5_000
"""Tolerated skew between hosts; a clock further behind a lease's own time was set back."""


@dataclass(frozen=True)
class Lease:
    """A client quota that we set or are about to set.

    Attributes:
        lease_id: Identifies the lease in all its rows.
        principal: Who is throttled, such as `User:mallory`.
        entity: Whose quota it is.
        quota_key: Such as `request_percentage`.
        previous: Value to restore; None if there was none.
        enforced: Value we set; of a hold, its end on the brokers, in milliseconds since the epoch.
        until_ms: When it ends, in milliseconds since the epoch.
        decision_id: The decision it enforces.
        state: See the module's docstring.
        set_ms: When `until_ms` was set, in milliseconds since the epoch.
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
        """Whether it has expired, or the clock is behind the time it was set: fail open."""
        return self.until_ms <= now_ms or now_ms < self.set_ms - CLOCK_SLACK_MS

    def longer(self, until_ms: int, decision_id: str, now_ms: int) -> "Lease":
        """Return a copy with a later end, set now. A hold has its end on the brokers, which then have to learn it."""
        enforced = float(until_ms) if self.quota_key == HOLD else self.enforced
        return replace(self, until_ms=until_ms, decision_id=decision_id, set_ms=now_ms, enforced=enforced)

    def to(self, state: LeaseState) -> "Lease":
        """Return a copy in another state."""
        return replace(self, state=state)


@dataclass(frozen=True)
class Action:
    """A row of `enforcement_actions`.

    Attributes:
        recorded_at_ms: When it was logged, in milliseconds since the epoch.
        state: The lease's new state; `hold` for a release order, `alert` for a warning.
        principal: Whose lease or hold; None in a `hold` means all principals.
        until_ms: End of the lease or the hold.
        reason: In words.
        lease: The lease in its new state; None in a `hold` or an `alert`.
        enforcer: Process that wrote it.
    """

    recorded_at_ms: int
    state: ActionState
    principal: str | None
    until_ms: int | None
    reason: str
    lease: Lease | None = None
    enforcer: str = ""


def action_of_lease(lease: Lease, now_ms: int, reason: str, enforcer: str) -> Action:
    """Return the row that logs a lease's state."""
    return Action(now_ms, lease.state, lease.principal, lease.until_ms, reason, lease, enforcer)


def next_step(lease: Lease, found: float | None, now_ms: int) -> Step:
    """Return the next step of an open lease.

    Args:
        lease: As last logged.
        found: Value that the broker holds; None if unset.
        now_ms: Wall clock, in milliseconds since the epoch.

    Returns:
        keep: Do nothing.
        apply: Set our value.
        confirm: Our value is set; log it.
        restore: Set the previous value.
        close: The previous value is set; log it.
        relinquish: Someone else changed or removed our value: leave it to them.

    Examples:
        >>> lease = Lease("1", "User:m", QuotaEntity("m"), "request_percentage", None, 0.01, 2000, "d")
        >>> [next_step(lease, None, 1000), next_step(lease, 0.01, 1000), next_step(lease, 7.0, 1000)]
        ['apply', 'confirm', 'relinquish']
        >>> [next_step(lease.to("in_force"), value, 2000) for value in (0.01, None, 7.0)]
        ['restore', 'close', 'relinquish']
    """
    ending = lease.state == "restoring" or lease.is_due(now_ms)
    if lease.quota_key == HOLD:
        return _next_step_of_hold(lease, found, ending=ending)
    if lease.quota_key == REFUSE:
        # Its end removes whatever is left of its ACLs.
        return "restore"
    if found == lease.enforced:
        if ending:
            return "restore"
        return "confirm" if lease.state == "applying" else "keep"
    if found != lease.previous:
        return "relinquish"
    if ending:
        return "close"
    # Before `in_force` the previous value means that ours was never set; after it, that someone restored it.
    return "apply" if lease.state == "applying" else "relinquish"


def _next_step_of_hold(lease: Lease, found: float | None, *, ending: bool) -> Step:
    """Return the next step of a lease that is a hold: an earlier end is one of ours, from before a renewal.

    Examples:
        >>> lease = Lease("1", "User:m", QuotaEntity("m", is_hold=True), HOLD, None, 2000.0, 2000, "d")
        >>> [_next_step_of_hold(lease, found, ending=False) for found in (None, 1000.0, 2000.0, 3000.0)]
        ['apply', 'apply', 'confirm', 'relinquish']
        >>> [_next_step_of_hold(lease.to("in_force"), found, ending=False) for found in (None, 1000.0, 2000.0)]
        ['relinquish', 'apply', 'keep']
        >>> [_next_step_of_hold(lease, found, ending=True) for found in (None, 1000.0, 3000.0)]
        ['close', 'restore', 'relinquish']
    """
    if found is not None and found > lease.enforced:
        return "relinquish"
    if ending:
        return "close" if found is None else "restore"
    is_new = lease.state == "applying"
    if found == lease.enforced:
        return "confirm" if is_new else "keep"
    return "apply" if is_new or found is not None else "relinquish"


def open_leases(actions: Iterable[Action]) -> dict[QuotaEntity, Lease]:
    """Return the leases still open after these rows, in any order: a clock may have been set back.

    Leases of the former lever `refuse` are ending, whenever they were to end.
    """
    newest: dict[str, Lease] = {}
    for action in actions:
        lease = action.lease
        if lease and (lease.lease_id not in newest or _progress(newest[lease.lease_id]) <= _progress(lease)):
            newest[lease.lease_id] = lease
    left = [lease for lease in newest.values() if lease.is_open]
    return {lease.entity: lease.to("restoring") if lease.quota_key == REFUSE else lease for lease in left}


def _progress(lease: Lease) -> tuple[int, int]:
    # States and ends only move forward.
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
    """Return the end of the cool-down of entities whose quota someone else changed during a lease."""
    return {
        action.lease.entity: action.recorded_at_ms + hands_off_ms
        for action in actions
        if action.lease and action.state == "relinquished"
    }


@dataclass(frozen=True)
class Holds:
    """Release orders (`--release`, `--release-all`): no new leases for a while.

    Attributes:
        everybody_until_ms: End of the hold on all principals.
        until_ms: End of the hold by principal.
    """

    everybody_until_ms: int
    until_ms: Mapping[str, int]

    @classmethod
    def of(cls, actions: Iterable[Action]) -> "Holds":
        """Collect the holds of these rows; later ones replace earlier ones."""
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
        """Whether a principal is on hold now."""
        return now_ms < max(self.everybody_until_ms, self.until_ms.get(principal, 0))
