"""Rows of the enforcer's tables as its own values, whichever engine reads and writes them."""

from collections.abc import Iterable, Mapping
from typing import Any

from broker.cluster.former_refusals import REFUSE
from broker.cluster.hold_bindings import HOLD
from broker.cluster.quota_entity import QuotaEntity
from broker.leases.lease_rules import Action, Lease
from broker.leases.lease_targets import ThrottleDecision
from tables.times import to_ms, to_time

DECISIONS = "throttle_decisions"
ACTIONS = "enforcement_actions"

DECISION_COLUMNS = (
    "decision_id",
    "principal",
    "action",
    "decided_at",
    "throttled_until",
    "quota",
    "refused_pids",
    "client_ids",
    "broker_id",
    "batch_id",
    "reason",
)

_NEEDED = ("decision_id", "principal", "action", "decided_at", "throttled_until")


def is_complete(row: Mapping[str, Any]) -> bool:
    """Whether a row of `throttle_decisions` has all that enforcement needs."""
    return None not in (row[name] for name in _NEEDED)


def decision_of(row: Mapping[str, Any]) -> ThrottleDecision:
    """Parse a row of `throttle_decisions`."""
    return ThrottleDecision(
        row["decision_id"],
        row["principal"],
        to_ms(row["decided_at"]),
        to_ms(row["throttled_until"]),
        row["quota"],
        row["refused_pids"] or 0,
        {name: count for name, count in dict(row["client_ids"] or ()).items() if count and count > 0},
        row.get("reason") == "quota_changed",
        row.get("broker_id"),
    )


def decisions_in_force(rows: Iterable[Mapping[str, Any]], now_ms: int) -> list[ThrottleDecision]:
    """Return the decisions in force, given all rows since the earliest that may still be.

    Only the newest row per principal and broker counts. One that is past is left out, unless it shortened a throttle,
    and so is a row that is not complete.
    """
    newest = {}
    # A RELEASE and the next THROTTLE may have the same time; the THROTTLE is the later one.
    complete = filter(is_complete, rows)
    for row in sorted(complete, key=lambda row: (row["decided_at"], row["batch_id"] or 0, row["action"])):
        newest[row["principal"], row["broker_id"]] = row
    found = [(row["action"] == "THROTTLE", decision_of(row)) for row in newest.values()]
    return [
        decision
        for throttles, decision in found
        if decision.ends_sooner or (throttles and decision.throttled_until_ms > now_ms)
    ]


def action_row(action: Action, number: int) -> dict[str, Any]:
    """Convert an action to a row of `enforcement_actions`; `number` orders the rows of one enforcer."""
    lease = action.lease
    row = {
        "recorded_at": to_time(action.recorded_at_ms),
        "sequence": number,
        "state": action.state,
        "principal": action.principal,
        "until": None if action.until_ms is None else to_time(action.until_ms),
        "reason": action.reason,
        "enforcer": action.enforcer,
    }
    if lease:
        row |= {
            "lease_id": lease.lease_id,
            "decision_id": lease.decision_id,
            "entity_user": lease.entity.user,
            "entity_client_id": lease.entity.client_id,
            "entity_ip": lease.entity.ip,
            "quota_key": lease.quota_key,
            "previous_value": lease.previous,
            "new_value": lease.enforced,
        }
    return row


def action_of(row: Mapping[str, Any]) -> Action:
    """Parse a row of `enforcement_actions`."""
    until_ms = None if row["until"] is None else to_ms(row["until"])
    lease = None
    if row["lease_id"] is not None:
        lease = Lease(
            row["lease_id"],
            row["principal"],
            QuotaEntity(
                row["entity_user"], row["entity_client_id"], row["entity_ip"], row["quota_key"] in (HOLD, REFUSE)
            ),
            row["quota_key"],
            row["previous_value"],
            row["new_value"],
            until_ms or 0,
            row["decision_id"],
            row["state"],
            set_ms=to_ms(row["recorded_at"]),
        )
    return Action(
        to_ms(row["recorded_at"]),
        row["state"],
        row["principal"],
        until_ms,
        row["reason"] or "",
        lease,
        row["enforcer"] or "",
    )


def actions_of(rows: Iterable[Mapping[str, Any]]) -> list[Action]:
    """Parse rows of `enforcement_actions`, in the order written.

    Skips rows without a time, or with a lease without an entity: the lease topic has every lease.
    """
    whole = [row for row in rows if None not in (row["recorded_at"], row["state"]) and _has_target(row)]
    return [action_of(row) for row in sorted(whole, key=lambda row: (row["recorded_at"], row["sequence"] or 0))]


def _has_target(row: Mapping[str, Any]) -> bool:
    if row["lease_id"] is None:
        return True
    named = row["entity_user"] is not None or row["entity_ip"] is not None
    return named and None not in (row["principal"], row["quota_key"], row["new_value"])
