"""The enforcer's leases, and their records in the table `enforcement_actions` and in the lease topic.

A lease is taken or extended only after both contain its record. A lease ends even if neither can be written.
"""

from collections.abc import Iterable, Sequence

from broker.enforcement.model import (
    AlertRecord,
    EnforcementRecord,
    Lease,
    LeaseRecord,
    ReleaseOrder,
    Releases,
    Target,
    lease_records,
    open_leases,
)
from broker.enforcement.planner import Known
from broker.enforcement.ports import ActionLog, LeaseStore
from broker.enforcement.steps import LeaseReason


class LeaseRegistry:
    """The open leases. Their records contain this process's `name`.

    A target whose setting someone else changed gets no lease for `hands_off_ms`.
    """

    def __init__(self, log: ActionLog, store: LeaseStore, name: str, hands_off_ms: int) -> None:
        self.leases: dict[Target, Lease] = {}
        self._log, self._store, self._name, self._hands_off_ms = log, store, name, hands_off_ms
        self._rows: list[EnforcementRecord] | None = None
        self._orders: list[ReleaseOrder] = []
        self._unstored: list[LeaseRecord] = []
        """Records to write to the lease topic."""
        self._unlogged: list[EnforcementRecord] = []
        """Records to write to the table."""
        self._over: list[str] = []
        """Ids of ended leases to remove from the lease topic."""
        self._known: Known | None = None

    @property
    def seen_ms(self) -> int:
        """See `LeaseStore`."""
        return self._store.seen_ms

    @property
    def is_complete(self) -> bool:
        """Whether the table was read since `load`. The table may know ends that are missing in the topic."""
        return self._rows is not None

    def load(self) -> None:
        """Load the leases from the topic."""
        kept = self._store.read(again=True)
        self.leases = open_leases(kept)
        self._orders = _orders(kept)
        self._rows, self._known, self._unstored, self._over = None, None, [], []
        self._unlogged = [record for record in lease_records(kept) if not record.lease.is_open]

    def read_orders(self) -> None:
        """Read new release orders."""
        orders = _orders(self._store.read())
        if orders != self._orders:
            self._orders, self._known = orders, None

    def refresh(self) -> list[Lease]:
        """Flush pending records, and reread a changed table.

        The first call after `load` returns the open leases that are only in the table, and drops the leases that have
        ended according to the table.
        """
        self.flush()
        if self._rows is not None and not self._log.has_changed():
            return []
        is_first = self._rows is None
        rows = self._log.read()
        found = self._adopt(rows) if is_first else []
        self._rows, self._known = rows, None
        return found

    def clear(self) -> None:
        """Drop all leases, because another enforcer owns them now."""
        self.leases.clear()
        self._unstored, self._unlogged, self._over = [], [], []

    def known(self) -> Known:
        """Return the state for planning."""
        if self._known is None:
            rows = self._rows or []
            records = lease_records(rows)
            self._known = Known(
                {},
                # The topic has the newest order of a principal. The brokers' clock may have dated an earlier one ahead.
                Releases([*_orders(rows), *self._orders]),
                {
                    record.lease.target: record.recorded_at_ms + self._hands_off_ms
                    for record in records
                    if record.lease.state == "relinquished"
                },
                _narrowed(records),
                _ended(records),
            )
        return self._known.with_leases(self.leases.values())

    def write_ahead(self, leases: Sequence[LeaseReason], now_ms: int) -> None:
        """Log and register leases before they are taken or extended.

        If this raises an error, the caller must not change the brokers.
        """
        records = self._records(leases, now_ms)
        if records:
            self._add(records)
            self._store.append(records)
            self.leases.update({lease.target: lease for lease, _ in leases})

    def record(self, leases: Sequence[LeaseReason], now_ms: int) -> None:
        """Register new states of leases. `flush` logs the states."""
        records = self._records(leases, now_ms)
        self._unstored += records
        self._unlogged += records
        for lease, _ in leases:
            if lease.is_open:
                self.leases[lease.target] = lease
            else:
                self.leases.pop(lease.target, None)

    def shorten(self, by_ms: int | None, why: str, now_ms: int) -> list[Lease]:
        """Shorten all leases, or end them if `by_ms` is None. Return the leases, which may differ from the brokers."""
        leases = [
            lease.ending(1 if by_ms is None else max(lease.until_ms - by_ms, 1), now_ms)
            for lease in self.leases.values()
        ]
        self.record([(lease, why) for lease in leases], now_ms)
        return leases

    def record_alert(self, why: str, now_ms: int) -> None:
        """Register a warning, which `flush` logs."""
        self._unlogged.append(AlertRecord(now_ms, None, why, self._name))

    def flush(self) -> None:
        """Write pending records to the lease topic and to the table, even if one of them fails.

        Unwritten records stay pending.
        """
        try:
            self._store_pending()
        except Exception:
            self._log_pending()
            raise
        self._log_pending()
        if self._over:
            self._store.drop(self._over)
            self._over = []

    def _store_pending(self) -> None:
        newest = {record.lease.lease_id: record for record in self._unstored}
        if newest:
            self._store.append(list(newest.values()))
        self._unstored = []

    def _log_pending(self) -> None:
        if self._unlogged:
            self._add(self._unlogged)
            records = lease_records(self._unlogged)
            self._over += [record.lease.lease_id for record in records if not record.lease.is_open]
            self._unlogged = []

    def _records(self, leases: Sequence[LeaseReason], now_ms: int) -> list[LeaseRecord]:
        return [LeaseRecord(now_ms, lease, why, self._name) for lease, why in leases]

    def _add(self, records: Sequence[EnforcementRecord]) -> None:
        self._log.append(records)
        if self._rows is not None:
            self._rows += records
        self._known = None

    def _adopt(self, rows: Sequence[EnforcementRecord]) -> list[Lease]:
        """Write the leases that are only in the table to the topic, which was recreated. Return these leases.

        Drop the leases whose end is only in the table, because the topic could not be written.
        """
        over = {record.lease.lease_id for record in lease_records(rows) if not record.lease.is_open}
        ended = [lease for lease in self.leases.values() if lease.lease_id in over]
        for lease in ended:
            del self.leases[lease.target]
        self._over += [lease.lease_id for lease in ended]
        found = [lease for target, lease in open_leases(rows).items() if target not in self.leases]
        if found:
            self._store.append([LeaseRecord(lease.set_ms, lease, "found in the table", self._name) for lease in found])
            self.leases.update({lease.target: lease for lease in found})
        return found


def _orders(records: Iterable[EnforcementRecord]) -> list[ReleaseOrder]:
    return [record for record in records if isinstance(record, ReleaseOrder)]


def _narrowed(records: Iterable[LeaseRecord]) -> dict[str, set[str]]:
    """Return, by user, the client ids that have been the target of a lease."""
    found: dict[str, set[str]] = {}
    for entity in (record.lease.target.entity for record in records):
        if entity.user is not None and entity.client_id is not None:
            found.setdefault(entity.user, set()).add(entity.client_id)
    return found


def _ended(records: Iterable[LeaseRecord]) -> frozenset[tuple[str, Target]]:
    """Return the decision and target of each lease that must not be taken again.

    A lease that was restored before its end may be taken again.
    """
    return frozenset(
        (record.lease.decision_id, record.lease.target)
        for record in records
        if not record.lease.is_open
        and (record.lease.state != "restored" or record.recorded_at_ms >= record.lease.until_ms)
    )
