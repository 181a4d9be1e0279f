"""All that an enforcer sets on the brokers: client quotas, and holds and refusals of new producer ids."""

from collections.abc import Collection, Sequence

from broker.cluster.client_quotas import QuotaChange
from broker.cluster.hold_bindings import HOLD
from broker.cluster.quota_entity import QuotaEntity
from broker.cluster.refusal_bindings import REFUSE
from broker.enforcer.ports import QuotaStore
from broker.errors import ClientQuotaError


class Levers:
    """Client quotas, holds and refusals in one store; the key of a value says which.

    Args:
        quotas: Client quotas.
        holds: Holds.
        refusals: Refusals.
        with_new_pids: Whether `describe_all` has holds and refusals: without these levers it would need rights that
            only they need.
    """

    def __init__(self, quotas: QuotaStore, holds: QuotaStore, refusals: QuotaStore, *, with_new_pids: bool) -> None:
        self._quotas, self._holds, self._refusals = quotas, holds, refusals
        self._with_new_pids = with_new_pids

    def describe(self, entity: QuotaEntity) -> dict[str, float]:
        """As `ClientQuotas.describe`, or `HoldBindings.describe` and `RefusalBindings.describe`."""
        if not entity.is_hold:
            return self._quotas.describe(entity)
        return self._holds.describe(entity) | self._refusals.describe(entity)

    def describe_all(self) -> dict[QuotaEntity, dict[str, float]]:
        """Return the quotas of all named entities, and all holds and refusals."""
        found = self._quotas.describe_all()
        for store in (self._holds, self._refusals) if self._with_new_pids else ():
            for entity, values in store.describe_all().items():
                found[entity] = found.get(entity, {}) | values
        return found

    def inherited(self, entity: QuotaEntity, key: str, client_ids: Collection[str] = ()) -> float | None:
        """As `ClientQuotas.inherited`; a hold or refusal inherits nothing."""
        return self._store(key).inherited(entity, key, client_ids)

    def alter(self, changes: Sequence[QuotaChange]) -> dict[QuotaEntity, ClientQuotaError | None]:
        """Change all kinds; the error of each entity."""
        errors: dict[QuotaEntity, ClientQuotaError | None] = {}
        for store in (self._holds, self._refusals, self._quotas):
            own = [change for change in changes if self._store(change.key) is store]
            errors |= store.alter(own) if own else {}
        return errors

    def _store(self, key: str) -> QuotaStore:
        return {HOLD: self._holds, REFUSE: self._refusals}.get(key, self._quotas)
