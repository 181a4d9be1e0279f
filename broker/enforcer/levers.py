"""All that an enforcer sets on the brokers: client quotas, and holds on new producer ids."""

from collections.abc import Collection, Sequence

from broker.cluster.client_quotas import QuotaChange
from broker.cluster.former_refusals import REFUSE, FormerRefusals
from broker.cluster.hold_bindings import HOLD
from broker.cluster.quota_entity import QuotaEntity
from broker.enforcer.ports import QuotaStore
from broker.errors import ClientQuotaError


class Levers:
    """Client quotas and holds in one store.

    Args:
        quotas: Client quotas.
        holds: Holds.
        refusals: Removes what earlier versions set.
        with_holds: Whether `describe_all` has holds: without that lever it would need rights that only holds need.
    """

    def __init__(self, quotas: QuotaStore, holds: QuotaStore, refusals: FormerRefusals, *, with_holds: bool) -> None:
        self._quotas, self._holds, self._refusals = quotas, holds, refusals
        self._with_holds = with_holds

    def describe(self, entity: QuotaEntity) -> dict[str, float]:
        """Return the client quotas of an entity, or its hold."""
        return self._store(entity).describe(entity)

    def describe_all(self) -> dict[QuotaEntity, dict[str, float]]:
        """Return the quotas of all named entities, and all holds."""
        return self._quotas.describe_all() | (self._holds.describe_all() if self._with_holds else {})

    def inherited(self, entity: QuotaEntity, key: str, client_ids: Collection[str] = ()) -> float | None:
        """As `ClientQuotas.inherited`; a hold inherits nothing."""
        return self._store(entity).inherited(entity, key, client_ids)

    def alter(self, changes: Sequence[QuotaChange]) -> dict[QuotaEntity, ClientQuotaError | None]:
        """Change both kinds, and remove refusals; the error of each entity."""
        errors: dict[QuotaEntity, ClientQuotaError | None] = {}
        by_key = {HOLD: self._holds, REFUSE: self._refusals}
        for store in (self._holds, self._refusals, self._quotas):
            own = [change for change in changes if by_key.get(change.key, self._quotas) is store]
            errors |= store.alter(own) if own else {}
        return errors

    def _store(self, entity: QuotaEntity) -> QuotaStore:
        return self._holds if entity.is_hold else self._quotas
