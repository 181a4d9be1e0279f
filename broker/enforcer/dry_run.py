"""Dry run: quotas read from the broker and changed in memory only, and a log that discards."""

from collections.abc import Callable, Collection, Sequence

from broker.cluster.client_quotas import QuotaChange
from broker.cluster.quota_entity import QuotaEntity
from broker.enforcer.notices import Notice
from broker.enforcer.ports import QuotaStore
from broker.errors import ClientQuotaError
from broker.leases.lease_rules import Action


class DryRunQuotas:
    """The broker's quotas, overlaid with changes that stay in memory."""

    def __init__(self, quotas: QuotaStore) -> None:
        self._quotas = quotas
        self._changed: dict[QuotaEntity, dict[str, float | None]] = {}

    def describe(self, entity: QuotaEntity) -> dict[str, float]:
        """As `ClientQuotas.describe`, with our changes."""
        values: dict[str, float | None] = {**self._quotas.describe(entity), **self._changed.get(entity, {})}
        return {key: value for key, value in values.items() if value is not None}

    def describe_all(self) -> dict[QuotaEntity, dict[str, float]]:
        """As `ClientQuotas.describe_all`, without our changes."""
        return self._quotas.describe_all()

    def inherited(self, entity: QuotaEntity, key: str, client_ids: Collection[str] = ()) -> float | None:
        """As `ClientQuotas.inherited`, without our changes."""
        return self._quotas.inherited(entity, key, client_ids)

    def alter(self, changes: Sequence[QuotaChange]) -> dict[QuotaEntity, ClientQuotaError | None]:
        """Remember the changes."""
        for change in changes:
            self._changed.setdefault(change.entity, {})[change.key] = change.value
        return {change.entity: None for change in changes}


class DryRunLog:
    """Discards all actions."""

    def append(self, actions: Sequence[Action]) -> None:
        """Discard them."""

    def read(self) -> list[Action]:
        """Return nothing."""
        return []

    def has_changed(self) -> bool:
        """Return False."""
        return False


class NoLeases:
    """A lease store that stays empty."""

    def read(self, *, again: bool = False) -> list[Action]:
        """Return nothing."""
        del again
        return []

    def append(self, actions: Sequence[Action]) -> None:
        """Discard them."""

    def drop(self, lease_ids: Sequence[str]) -> None:
        """Do nothing."""


class NoLock:
    """A lock that is always held: any number of dry runs may run at once."""

    def is_held(self) -> bool:
        """Return True."""
        return True

    def confirm(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Do nothing."""


def without_lock(notify: Callable[[Notice], None]) -> Callable[[Notice], None]:
    """Return `notify`, silent about the lock: a dry run holds none."""

    def say(notice: Notice) -> None:
        if notice.kind != "lock":
            notify(notice)

    return say
