"""What the enforcer needs of the outside: decisions, a log, the lease store and a lock."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from broker.enforcement.levers.base import Lever
from broker.enforcement.model import EnforcementRecord, LeaseRecord, LeverName, ReleaseOrder, Target, ThrottleDecision


class DecisionSource(Protocol):
    """Where decisions come from.

    Attributes:
        bad_rows: Rows skipped at the last call: incomplete, or dated far ahead.
    """

    bad_rows: int

    def newest(self, now_ms: int, *, again: bool = False) -> list[ThrottleDecision]:
        """Return the newest decision per principal (and broker), or an empty list if nothing is new.

        One that is past counts, too: it ends an earlier one. `again` returns them even if nothing is new.
        """

    def has_news(self) -> bool:
        """Whether something was written since `newest`, logged once; cheap, and false where that can't be seen."""


class ActionLog(Protocol):
    """The table `enforcement_actions`."""

    def append(self, records: Sequence[EnforcementRecord]) -> None:
        """Append all or none; raise if they are not durable."""

    def read(self) -> list[EnforcementRecord]:
        """Return all, in the order written."""

    def has_changed(self) -> bool:
        """Whether others have written since `read`."""


class LeaseStore(Protocol):
    """What it takes to end the leases without the tables; see `LeaseTopic`."""

    def read(self, *, again: bool = False) -> list[LeaseRecord | ReleaseOrder]:
        """Return the newest record of each lease, and the orders; `again` rereads to the end."""

    def append(self, records: Sequence[LeaseRecord | ReleaseOrder]) -> None:
        """Store records; raise if they are not durable."""

    def drop(self, lease_ids: Sequence[str]) -> None:
        """Remove leases that are over."""


class Lock(Protocol):
    """Mutual exclusion of enforcers; see `EnforcerLock`.

    Attributes:
        times_taken: How often we got it: another enforcer may have held it between two looks.
    """

    times_taken: int

    def is_held(self) -> bool:
        """Whether we hold it, as far as we know; never blocks."""

    def confirm(self) -> bool:
        """Ask whether we still hold it; blocks."""

    def close(self) -> None:
        """Release it."""


@dataclass(frozen=True)
class EnforcerPorts:
    """All that an enforcer works with.

    `others` returns the targets of other enforcers' leases, None if unknown: a dry run has no leases of its own.
    """

    decisions: DecisionSource
    log: ActionLog
    leases: LeaseStore
    levers: Mapping[LeverName, Lever]
    lock: Lock
    others: Callable[[], Collection[Target] | None] = frozenset
