"""The enforcer's interfaces: decisions, a log, the lease store and a lock."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from broker.enforcement.levers.base import Lever
from broker.enforcement.model import EnforcementRecord, LeaseRecord, LeverName, ReleaseOrder, Target, ThrottleDecision


class DecisionSource(Protocol):
    """A source of decisions. `bad_rows` were skipped at the last call: incomplete, or dated far ahead."""

    bad_rows: int

    def newest(self, now_ms: int, *, again: bool = False) -> list[ThrottleDecision]:
        """Return the newest decision per principal (and broker), even if expired.

        None if none is new, unless `again`.
        """

    def has_news(self) -> bool:
        """Whether something was written since `newest`: true once per write, false if unknown. Cheap."""


class ActionLog(Protocol):
    """The table `enforcement_actions`."""

    def append(self, records: Sequence[EnforcementRecord]) -> None:
        """Append all or none; raise if they are not durable."""

    def read(self) -> list[EnforcementRecord]:
        """Return all, in the order written."""

    def has_changed(self) -> bool:
        """Whether others have written since `read`."""


class LeaseStore(Protocol):
    """Stores what is needed to end leases without the tables; see `LeaseTopic`."""

    def read(self, *, again: bool = False) -> list[LeaseRecord | ReleaseOrder]:
        """Return the newest record of each lease, and the orders; `again` rereads to the end."""

    def append(self, records: Sequence[LeaseRecord | ReleaseOrder]) -> None:
        """Store records; raise if they are not durable."""

    def drop(self, lease_ids: Sequence[str]) -> None:
        """Remove leases that are over."""


class Lock(Protocol):
    """Mutual exclusion of enforcers; `times_taken` grows if another enforcer may have held it between two checks."""

    times_taken: int

    def is_held(self) -> bool:
        """Whether we hold it, as last known; never blocks."""

    def confirm(self) -> bool:
        """Ask whether we still hold it; blocks."""


@dataclass(frozen=True)
class EnforcerPorts:
    """The connections of an enforcer; `others` returns the targets of other enforcers' leases, None if unknown."""

    decisions: DecisionSource
    log: ActionLog
    leases: LeaseStore
    levers: Mapping[LeverName, Lever]
    lock: Lock
    others: Callable[[], Collection[Target] | None] = frozenset
