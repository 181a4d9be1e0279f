"""The enforcer's tables: decisions to read, and actions to read and write."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from broker.enforcement.model import (
    MAX_AHEAD_MS,
    AlertRecord,
    EnforcementRecord,
    Lease,
    LeaseRecord,
    ReleaseOrder,
    Target,
    ThrottleDecision,
)
from broker.enforcement.store.past_decisions import PastDecisions
from broker.kafka.quota_entity import QuotaEntity
from tables.errors import TableError
from tables.store.base import TableStore
from tables.store.open import open_store
from tables.times import to_ms, to_time

STREAM_TABLES = ("producer_id_metrics", "throttle_decisions")
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
    "addresses",
    "batch_id",
)

_OF_A_LEASE = ("lease_id", "lease_revision", "principal", "lever", "until", "decision_id")
_NEEDED = ("decision_id", "principal", "action", "decided_at", "throttled_until")


def follow_writes(store: TableStore) -> Callable[[], int]:
    """Return a function that returns the time of the stream's last write, in ms since the epoch."""
    followed = [store.follow(name) for name in STREAM_TABLES]
    return lambda: max(each.last_write_ms() for each in followed)


class DecisionTable:
    """The table `throttle_decisions`. Rows are read only if the table has a new version."""

    def __init__(self, store: TableStore) -> None:
        self._followed = store.follow(DECISIONS, DECISION_COLUMNS)
        self._is_new = True
        self._past = PastDecisions()
        self.bad_rows = 0

    def newest(self, now_ms: int, *, again: bool = False, only_new: bool = False) -> list[ThrottleDecision]:
        """Return the newest decisions; see `DecisionSource`."""
        if only_new:
            self._is_new = self._followed.refresh() or self._is_new
        self._past.observe(
            now_ms, lambda: self._followed.since("throttled_until", to_time(now_ms)), was_set_back=only_new
        )
        if not (self._followed.refresh() or self._is_new or again):
            return []
        # If reading fails, the next call must read the rows.
        self._is_new = True
        now = to_time(now_ms)
        rows = self._past.without(self._followed.since("throttled_until", now))
        # `newest_decisions` skips rows without times.
        times = [(row["decided_at"], row["throttled_until"]) for row in rows]
        first = min((decided for decided, until in times if decided and until and until > now), default=None)
        # Read all rows since `first`. An expired row may have shortened a decision that seems to be in force.
        rows = self._past.without(self._followed.since("decided_at", first)) if first else []
        self._is_new = False
        self.bad_rows = sum(not is_credible(row, now_ms) for row in rows)
        return newest_decisions(rows, now_ms)

    def has_news(self) -> bool:
        """See `DecisionSource.has_news`."""
        return self._followed.has_news()


class ActionTable:
    """The table `enforcement_actions`; see `ActionLog`."""

    def __init__(self, store: TableStore) -> None:
        self._store = store
        self._followed = store.follow(ACTIONS)
        self._has_changed = True
        self._sequence = count()

    def append(self, records: Sequence[EnforcementRecord]) -> None:
        """See `ActionLog.append`."""
        rows = [action_row(record, next(self._sequence)) for record in records]
        try:
            before = self._followed.version()
            self._store.append(ACTIONS, rows)
        except TableError as error:
            reason = f"can't write table {ACTIONS} ({error})"
            msg = f"{reason}: no quota is changed without it. Check --tables, and MODIFY on it in a catalog"
            raise TableError(msg) from error
        self._followed.refresh()
        if self._followed.version() != before + 1:
            # Another process wrote to the table in between.
            self._has_changed = True

    def read(self) -> list[EnforcementRecord]:
        """See `ActionLog.read`."""
        self._followed.refresh()
        rows = self._followed.rows()
        self._has_changed = False
        return records_of(rows)

    def has_changed(self) -> bool:
        """See `ActionLog.has_changed`."""
        self._has_changed = self._followed.refresh() or self._has_changed
        return self._has_changed


def require_readable(tables: str) -> None:
    """Check that a dry run can read its tables."""
    with open_store(tables) as store:
        for name in STREAM_TABLES:
            store.require_known_version(name)


def is_credible(row: Mapping[str, Any], now_ms: int) -> bool:
    """Whether a row of `throttle_decisions` is complete and not dated far ahead."""
    return None not in (row[name] for name in _NEEDED) and to_ms(row["decided_at"]) <= now_ms + MAX_AHEAD_MS


def _decision_of(row: Mapping[str, Any]) -> ThrottleDecision:
    decided_at_ms = to_ms(row["decided_at"])
    return ThrottleDecision(
        row["decision_id"],
        row["principal"],
        decided_at_ms,
        to_ms(row["throttled_until"]) if row["action"] == "THROTTLE" else decided_at_ms,
        row["quota"],
        row["refused_pids"] or 0,
        _counts(row["client_ids"]),
        _counts(row.get("addresses")),
    )


def _counts(found: Mapping[str, int | None] | Iterable[tuple[str, int | None]] | None) -> dict[str, int]:
    return {name: count for name, count in dict(found or ()).items() if count and count > 0}


def newest_decisions(rows: Iterable[Mapping[str, Any]], now_ms: int) -> list[ThrottleDecision]:
    """Return the newest decision per principal.

    `rows` must contain all rows since the earliest decision in force.
    """
    newest = {}
    # If a RELEASE and the next THROTTLE have the same time, the THROTTLE is the later one.
    credible = [row for row in rows if is_credible(row, now_ms)]
    for row in sorted(credible, key=lambda row: (row["decided_at"], row["batch_id"] or 0, row["action"])):
        newest[row["principal"]] = row
    return [_decision_of(row) for row in newest.values()]


def action_row(record: EnforcementRecord, number: int) -> dict[str, Any]:
    """Convert a record to a row of `enforcement_actions`. `number` orders the rows of one enforcer."""
    row: dict[str, Any] = {
        "recorded_at": to_time(record.recorded_at_ms),
        "sequence": number,
        "reason": record.reason,
        "enforcer": record.enforcer,
    }
    if isinstance(record, AlertRecord):
        return row | {"state": "alert", "principal": record.principal}
    if isinstance(record, ReleaseOrder):
        return row | {"state": "release", "principal": record.principal, "until": to_time(record.until_ms)}
    lease, entity = record.lease, record.lease.target.entity
    return row | {
        "state": lease.state,
        "principal": lease.principal,
        "until": to_time(lease.until_ms),
        "lease_id": lease.lease_id,
        "lease_revision": lease.revision,
        "decision_id": lease.decision_id,
        "lever": lease.target.lever,
        "entity_user": entity.user,
        "entity_client_id": entity.client_id,
        "entity_ip": entity.ip,
        "previous_value": lease.previous,
        "new_value": lease.value,
    }


def records_of(rows: Iterable[Mapping[str, Any]]) -> list[EnforcementRecord]:
    """Parse the complete rows of `enforcement_actions`. Return the records in the order written."""
    whole = [row for row in rows if _is_whole(row)]
    return [_record_of(row) for row in sorted(whole, key=lambda row: (row["recorded_at"], row["sequence"] or 0))]


def _record_of(row: Mapping[str, Any]) -> EnforcementRecord:
    at_ms, reason, enforcer = to_ms(row["recorded_at"]), row["reason"] or "", row["enforcer"] or ""
    if row["state"] == "alert":
        return AlertRecord(at_ms, row["principal"], reason, enforcer)
    until_ms = to_ms(row["until"])
    if row["state"] == "release":
        return ReleaseOrder(at_ms, row["principal"], until_ms, reason, enforcer)
    lease = Lease(
        row["lease_id"],
        row["principal"],
        Target(row["lever"], QuotaEntity(row["entity_user"], row["entity_client_id"], row["entity_ip"])),
        until_ms,
        row["decision_id"],
        row["state"],
        at_ms,
        row["new_value"],
        row["previous_value"],
        row["lease_revision"],
    )
    return LeaseRecord(at_ms, lease, reason, enforcer)


def _is_whole(row: Mapping[str, Any]) -> bool:
    needed = {"alert": (), "release": ("until",)}.get(row["state"], _OF_A_LEASE)
    named = row["state"] in ("alert", "release") or row["entity_user"] is not None or row["entity_ip"] is not None
    return named and None not in (row["recorded_at"], row["state"], *(row[name] for name in needed))
