"""The interfaces through which the enforcer gets decisions, a log, the lease store and a lock."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from broker.enforcement.levers.base import Lever
from broker.enforcement.model import EnforcementRecord, LeaseRecord, LeverName, ReleaseOrder, Target, ThrottleDecision


class DecisionSource(Protocol):
    """A source of decisions. `bad_rows` counts rows that the last call skipped: incomplete, or dated far ahead."""

    bad_rows: int

    def newest(self, now_ms: int, *, again: bool = False) -> list[ThrottleDecision]:
        """Return the newest decision per principal (and broker), even if it has expired.

        Return none if nothing was written since the last call, unless `again` is set.
        """

    def has_news(self) -> bool:
        """Whether something was written since `newest`: true once per write, false if unknown. This check is cheap."""


class ActionLog(Protocol):
    """The table `enforcement_actions`."""

    def append(self, records: Sequence[EnforcementRecord]) -> None:
        """Append all records or none. Raise an error unless they are durable."""

    def read(self) -> list[EnforcementRecord]:
        """Return all records in the order written."""

    def has_changed(self) -> bool:
        """Whether others have written since `read`."""


class LeaseStore(Protocol):
    """Stores what is needed to end leases without the tables; see `LeaseTopic`."""

    def read(self, *, again: bool = False) -> list[LeaseRecord | ReleaseOrder]:
        """Return the newest record of each lease, and the orders. `again` rereads everything."""

    def append(self, records: Sequence[LeaseRecord | ReleaseOrder]) -> None:
        """Store records. Raise an error unless they are durable."""

    def drop(self, lease_ids: Sequence[str]) -> None:
        """Remove leases that have ended."""


class Lock(Protocol):
    """Makes only one enforcer active. `times_taken` grows if another may have held the lock between two checks."""

    times_taken: int

    def is_held(self) -> bool:
        """Whether we hold the lock, as last known. This blocks only if brokers do not answer."""

    def confirm(self) -> bool:
        """Ask whether we still hold the lock. This blocks."""


@dataclass(frozen=True)
class EnforcerPorts:
    """The connections of an enforcer. A dry run's `others` returns the targets of open leases; None if unknown."""

    decisions: DecisionSource
    log: ActionLog
    leases: LeaseStore
    levers: Mapping[LeverName, Lever]
    lock: Lock
    others: Callable[[], Collection[Target] | None] = frozenset
