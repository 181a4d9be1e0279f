"""The enforcer's ports: decisions, a log of actions, the lease store, the broker's quotas and a lock."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from broker.cluster.client_quotas import QuotaChange
from broker.cluster.quota_entity import QuotaEntity
from broker.errors import ClientQuotaError
from broker.leases.lease_rules import Action
from broker.leases.lease_targets import ThrottleDecision


class DecisionSource(Protocol):
    """Where decisions come from.

    Attributes:
        bad_rows: Rows skipped as incomplete at the last call.
    """

    bad_rows: int

    def in_force(self, now_ms: int, *, again: bool = False) -> list[ThrottleDecision]:
        """Return decisions in force, or an empty list if nothing is new and `again` is false.

        The newest decision per principal (and broker) counts, if it is not past or ends an earlier one sooner.
        """

    def has_news(self) -> bool:
        """Whether something was written since `in_force`, said once; cheap, and false where that can't be seen."""


class ActionLog(Protocol):
    """The log of actions."""

    def append(self, actions: Sequence[Action]) -> None:
        """Append all or none; raise if they are not durable."""

    def read(self) -> list[Action]:
        """Return all, in the order written."""

    def has_changed(self) -> bool:
        """Whether others have written since `read`."""


class LeaseStore(Protocol):
    """What it takes to end the leases without the tables; see `LeaseTopic`."""

    def read(self, *, again: bool = False) -> list[Action]:
        """Return the newest step of each lease, and the orders; `again` rereads to the end."""

    def append(self, actions: Sequence[Action]) -> None:
        """Store steps and orders; raise if they are not durable."""

    def drop(self, lease_ids: Sequence[str]) -> None:
        """Remove leases that are over."""


class QuotaStore(Protocol):
    """The broker's client quotas and holds; see `Levers`."""

    def describe(self, entity: QuotaEntity) -> dict[str, float]:
        """Return the quotas set on exactly this entity, by key."""

    def describe_all(self) -> dict[QuotaEntity, dict[str, float]]:
        """Return the quotas of all named entities."""

    def inherited(self, entity: QuotaEntity, key: str, client_ids: Collection[str] = ()) -> float | None:
        """Return the value that an entity inherits where it has none of its own."""

    def alter(self, changes: Sequence[QuotaChange]) -> dict[QuotaEntity, ClientQuotaError | None]:
        """Set or remove values."""


class Coverage(Protocol):
    """Whether holds can be used; see `HoldCoverage`."""

    def trouble(self) -> str:
        """Return why no hold can be used now, or an empty string."""


class Lock(Protocol):
    """Mutual exclusion of enforcers; see `EnforcerLock`."""

    def is_held(self) -> bool:
        """Whether we hold it, as far as we know; never blocks."""

    def confirm(self) -> bool:
        """Ask whether we still hold it; blocks."""

    def close(self) -> None:
        """Release it."""


@dataclass(frozen=True)
class Clocks:
    """The two clocks of an enforcer.

    Attributes:
        wall_ms: Wall clock, in milliseconds since the epoch; may be set.
        steady_ms: Monotonic clock, in milliseconds.
    """

    wall_ms: Callable[[], int]
    steady_ms: Callable[[], int]


@dataclass(frozen=True)
class EnforcerPorts:
    """All ports of an enforcer.

    Attributes:
        decisions: Where decisions come from.
        log: The log of actions.
        leases: The lease topic.
        quotas: The broker's client quotas.
        lock: Mutual exclusion of enforcers.
        coverage: Whether holds can be used; asked with the lever `hold` alone.
        others: Returns the entities of other enforcers' leases, None if unknown: a dry run has none of its own.
    """

    decisions: DecisionSource
    log: ActionLog
    leases: LeaseStore
    quotas: QuotaStore
    lock: Lock
    coverage: Coverage
    others: Callable[[], Collection[QuotaEntity] | None] = frozenset
