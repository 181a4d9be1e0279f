"""The interfaces that the enforcer needs."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from broker.enforcement.levers.base import Lever
from broker.enforcement.model import EnforcementRecord, LeaseRecord, LeverName, ReleaseOrder, Target, ThrottleDecision


class DecisionSource(Protocol):
    """A source of decisions. `bad_rows` counts rows of the last read that are incomplete or dated far ahead."""

    bad_rows: int

    def newest(self, now_ms: int, *, again: bool = False, only_new: bool = False) -> list[ThrottleDecision]:
        """Return the newest decision per principal and broker, even if the decision has expired.

        If nothing was written since the last call, return no decisions unless `again` is set. With `only_new`,
        decisions written so far count neither in this call nor in later ones.
        """

    def has_news(self) -> bool:
        """Whether something was written since `newest`. The result is true once per write, and false if unknown."""


class ActionLog(Protocol):
    """The table `enforcement_actions`."""

    def append(self, records: Sequence[EnforcementRecord]) -> None:
        """Append all records durably, or raise an error."""

    def read(self) -> list[EnforcementRecord]:
        """Return all records in the order written."""

    def has_changed(self) -> bool:
        """Whether others have written since `read`."""


class LeaseStore(Protocol):
    """A store that suffices to end leases without the tables; see `LeaseTopic`."""

    @property
    def seen_ms(self) -> int:
        """The latest time of a record by the brokers' clock, in ms since the epoch; 0 if unknown."""

    def read(self, *, again: bool = False) -> list[LeaseRecord | ReleaseOrder]:
        """Return the newest record of each lease, and the release orders. `again` rereads everything."""

    def append(self, records: Sequence[LeaseRecord | ReleaseOrder]) -> None:
        """Store records durably, or raise an error."""

    def drop(self, lease_ids: Sequence[str]) -> None:
        """Remove leases that have ended."""


class Lock(Protocol):
    """A lock that lets only one enforcer be active.

    `times_taken` grows if another enforcer may have held the lock between two checks.
    """

    times_taken: int

    def is_held(self) -> bool:
        """Return whether this enforcer believes that it holds the lock."""

    def confirm(self) -> bool:
        """Ask Kafka whether we still hold the lock."""


@dataclass(frozen=True)
class EnforcerPorts:
    """The connections of an enforcer. In a dry run, `others` returns other enforcers' targets, or None if unknown."""

    decisions: DecisionSource
    log: ActionLog
    leases: LeaseStore
    levers: Mapping[LeverName, Lever]
    lock: Lock
    others: Callable[[], Collection[Target] | None] = frozenset
