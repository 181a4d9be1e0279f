"""What an enforcer needs from outside: decisions, a log, the broker's quotas and a lock."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from broker.cluster.client_quotas import QuotaChange
from broker.cluster.quota_entity import QuotaEntity
from broker.errors import ClientQuotaError
from broker.leases.lease_rules import Action
from broker.leases.lease_targets import ThrottleDecision


class DecisionSource(Protocol):
    """Where decisions come from."""

    def in_force(self, now_ms: int, *, again: bool = False) -> list[ThrottleDecision]:
        """Return what holds, if something came since the last call or it is wanted `again`.

        That is of each principal (and broker) the newest decision, if its end is not past or sooner than it was.
        """


class ActionLog(Protocol):
    """Where actions are written down."""

    def append(self, actions: Sequence[Action]) -> None:
        """Write them down, all or none; raises if they are not safe."""

    def read(self) -> list[Action]:
        """Return all, in the order in which they were written."""

    def has_changed(self) -> bool:
        """Say whether others wrote something since `read`."""


class LeaseStore(Protocol):
    """Where it is kept what ending the leases takes, should the tables fail; see `LeaseTopic`."""

    def read(self, *, again: bool = False) -> list[Action]:
        """Return the newest step of each lease, and the orders; `again` waits for all that others wrote."""

    def append(self, actions: Sequence[Action]) -> None:
        """Keep steps and orders; raises if they are not safe."""

    def drop(self, lease_ids: Sequence[str]) -> None:
        """Take leases away that are over."""


class QuotaStore(Protocol):
    """The broker's client quotas; see `ClientQuotas`."""

    def describe(self, entity: QuotaEntity) -> dict[str, float]:
        """Return the quotas of exactly this entity."""

    def describe_all(self) -> dict[QuotaEntity, dict[str, float]]:
        """Return the quotas of all named entities."""

    def inherited(self, entity: QuotaEntity, key: str, client_ids: Collection[str] = ()) -> float | None:
        """Return what holds for an entity by wider quotas than its own."""

    def alter(self, changes: Sequence[QuotaChange]) -> dict[QuotaEntity, ClientQuotaError | None]:
        """Set or remove values."""


class Lock(Protocol):
    """Keeps enforcers one at a time; see `EnforcerLock`."""

    def is_held(self) -> bool:
        """Say whether we hold it, without waiting."""

    def confirm(self) -> bool:
        """Make sure of it."""

    def close(self) -> None:
        """Let go of it."""


@dataclass(frozen=True)
class Clocks:
    """The two clocks of an enforcer.

    Attributes:
        wall_ms: The time, in milliseconds since the epoch; somebody may set it.
        steady_ms: Milliseconds since whenever; nobody can set it.
    """

    wall_ms: Callable[[], int]
    steady_ms: Callable[[], int]


@dataclass(frozen=True)
class EnforcerPorts:
    """All of it.

    Attributes:
        decisions: Where decisions come from.
        log: Where actions are written down.
        leases: What is kept on the brokers.
        quotas: The broker's client quotas.
        lock: Keeps enforcers one at a time.
    """

    decisions: DecisionSource
    log: ActionLog
    leases: LeaseStore
    quotas: QuotaStore
    lock: Lock
