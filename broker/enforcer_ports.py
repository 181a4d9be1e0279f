"""What an enforcer needs from outside: decisions, a log, the broker's quotas and a lock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from broker.client_quotas import QuotaChange
from broker.errors import ClientQuotaError
from broker.lease_targets import ThrottleDecision
from broker.leases import Action
from broker.quota_entity import QuotaEntity


class DecisionSource(Protocol):
    """Where decisions come from."""

    def in_force(self, now_ms: int, *, again: bool = False) -> list[ThrottleDecision]:
        """Return the THROTTLEs that are not past, if something came since the last call or they are wanted `again`."""


class ActionLog(Protocol):
    """Where actions are written down."""

    def append(self, actions: Sequence[Action]) -> None:
        """Write them down, all or none; raises if they are not safe."""

    def read(self) -> list[Action]:
        """Return all, in the order in which they were written."""

    def has_changed(self) -> bool:
        """Say whether others wrote something since `read`."""


class QuotaStore(Protocol):
    """The broker's client quotas; see `ClientQuotas`."""

    def describe(self, entity: QuotaEntity) -> dict[str, float]:
        """Return the quotas of exactly this entity."""

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
