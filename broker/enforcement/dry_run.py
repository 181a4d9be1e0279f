"""A dry run: changes stay in memory, and no record is written."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from broker.enforcement.levers.client_quota import QuotaStore
from broker.enforcement.levers.hold import HoldStore
from broker.enforcement.model import EnforcementRecord
from broker.enforcement.notices import Notice
from broker.errors import BrokerError
from broker.kafka.quota_entity import QuotaChange, QuotaEntity
from wire.holds import HoldBinding


class DryRunQuotas:
    """A `QuotaStore` whose changes stay in memory."""

    def __init__(self, quotas: QuotaStore) -> None:
        self._quotas = quotas
        self._changed: dict[QuotaEntity, dict[str, float | None]] = {}

    def describe(self, entity: QuotaEntity) -> dict[str, float]:
        """Return an entity's quotas, with the changes."""
        values: dict[str, float | None] = {**self._quotas.describe(entity), **self._changed.get(entity, {})}
        return {key: value for key, value in values.items() if value is not None}

    def describe_all(self) -> dict[QuotaEntity, dict[str, float]]:
        """Return all quotas, without the changes."""
        return self._quotas.describe_all()

    def inherited(self, entity: QuotaEntity, key: str, client_ids: Collection[str] = ()) -> float | None:
        """Return what an entity inherits, without the changes."""
        return self._quotas.inherited(entity, key, client_ids)

    def alter(self, changes: Sequence[QuotaChange]) -> dict[QuotaEntity, BrokerError | None]:
        """Remember the changes."""
        for change in changes:
            self._changed.setdefault(change.entity, {})[change.key] = change.value
        return {change.entity: None for change in changes}


class DryRunHolds:
    """A `HoldStore` whose changes stay in memory."""

    def __init__(self, holds: HoldStore) -> None:
        self._holds = holds
        self._added: set[HoldBinding] = set()
        self._removed: set[HoldBinding] = set()

    def of_user(self, user: str) -> list[HoldBinding]:
        """Return a user's holds, with the changes."""
        added = {each for each in self._added if each.user == user}
        return list({*self._holds.of_user(user)} - self._removed | added)

    def all(self) -> list[HoldBinding]:
        """Return all holds, with the changes."""
        return list({*self._holds.all()} - self._removed | self._added)

    def add(self, hold: HoldBinding) -> None:
        """Remember a new hold."""
        self._added.add(hold)

    def remove(self, holds: Collection[HoldBinding]) -> None:
        """Remember the removal."""
        self._added.difference_update(holds)
        self._removed.update(holds)


class DiscardedRecords:
    """An `ActionLog` and `LeaseStore` that discards all records."""

    seen_ms = 0

    def append(self, records: Sequence[EnforcementRecord]) -> None:
        """Discard the records."""

    def read(self, *, again: bool = False) -> list[Any]:
        """Return no records."""
        del again
        return []

    def has_changed(self) -> bool:
        """Return False."""
        return False

    def drop(self, lease_ids: Sequence[str]) -> None:
        """Do nothing."""


class NoLock:
    """A lock that any number of dry runs can hold at once."""

    times_taken = 1

    def is_held(self) -> bool:
        """Return True."""
        return True

    def confirm(self) -> bool:
        """Return True."""
        return True


def without_lock(notify: Callable[[Notice], None]) -> Callable[[Notice], None]:
    """Return a `notify` that drops notices about the lock."""
    return lambda notice: None if notice.action == "lock" else notify(notice)
