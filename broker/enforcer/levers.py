"""All that an enforcer sets on the brokers: client quotas, and holds on new producer ids."""

from collections.abc import Collection, Sequence

from broker.cluster.client_quotas import QuotaChange
from broker.cluster.quota_entity import QuotaEntity
from broker.enforcer.ports import QuotaStore
from broker.errors import ClientQuotaError


class Levers:
    """Client quotas and holds in one store; the entity says which.

    Args:
        quotas: Client quotas.
        holds: Holds.
        with_holds: Whether `describe_all` has them: without the lever it would need rights that only holds need.
    """

    def __init__(self, quotas: QuotaStore, holds: QuotaStore, *, with_holds: bool) -> None:
        self._quotas, self._holds, self._with_holds = quotas, holds, with_holds

    def describe(self, entity: QuotaEntity) -> dict[str, float]:
        """As `ClientQuotas.describe` or `HoldBindings.describe`."""
        return self._store(entity).describe(entity)

    def describe_all(self) -> dict[QuotaEntity, dict[str, float]]:
        """Return the quotas of all named entities, and all holds."""
        return self._quotas.describe_all() | (self._holds.describe_all() if self._with_holds else {})

    def inherited(self, entity: QuotaEntity, key: str, client_ids: Collection[str] = ()) -> float | None:
        """As `ClientQuotas.inherited`; a hold inherits nothing."""
        return self._store(entity).inherited(entity, key, client_ids)

    def alter(self, changes: Sequence[QuotaChange]) -> dict[QuotaEntity, ClientQuotaError | None]:
        """Change both kinds; the error of each entity."""
        errors: dict[QuotaEntity, ClientQuotaError | None] = {}
        for store in (self._holds, self._quotas):
            own = [change for change in changes if self._store(change.entity) is store]
            errors |= store.alter(own) if own else {}
        return errors

    def _store(self, entity: QuotaEntity) -> QuotaStore:
        return self._holds if entity.is_hold else self._quotas
