"""Takes the next step of each lease on the broker: reads the quota first, and retries transient failures."""

from collections.abc import Callable, Collection, Sequence

from broker.cluster.client_quotas import QuotaChange
from broker.cluster.former_refusals import REFUSE
from broker.cluster.quota_entity import QuotaEntity
from broker.enforcer.notices import Notice, lever_text
from broker.enforcer.ports import Clocks, QuotaStore
from broker.errors import BrokerError, ClientQuotaError, ClientQuotaRefusedError
from broker.leases.lease_rules import Lease, next_step

_BACKOFF_MS = (250, 500, 1_000, 2_000, 5_000, 15_000)

LeaseReason = tuple[Lease, str]
"""A lease, and the reason of its state."""


class LeaseSteps:
    """Takes steps. A failure for one entity does not stop the others.

    Args:
        quotas: The broker's client quotas.
        clocks: Time the backoff.
        notify: Called with a notice of each retry.
    """

    def __init__(self, quotas: QuotaStore, clocks: Clocks, notify: Callable[[Notice], None]) -> None:
        self._quotas, self._clocks, self._notify = quotas, clocks, notify
        self._failures: dict[QuotaEntity, int] = {}
        self._retry_at: dict[QuotaEntity, int] = {}
        self.unverified: set[QuotaEntity] = set()
        """Entities of inherited leases whose quota has not been read yet."""

    def may_try(self, entity: QuotaEntity) -> bool:
        """Whether an entity is not backing off."""
        return self._retry_at.get(entity, 0) <= self._clocks.steady_ms()

    def effective_quotas(
        self, entity: QuotaEntity, key: str, client_ids: Collection[str]
    ) -> tuple[float | None, float | None]:
        """Return the quota set on an entity (None if unset), and the one it would inherit without it.

        Raises:
            BrokerError: If Kafka does not answer; the entity then backs off.
        """
        try:
            return self._quotas.describe(entity).get(key), self._quotas.inherited(entity, key, client_ids)
        except BrokerError as error:
            self._back_off(entity, None, error)
            raise

    def take(self, leases: Sequence[Lease], now_ms: int) -> list[LeaseReason]:
        """Take the next step of each lease; return those whose state changed, with reasons."""
        changes: dict[QuotaEntity, tuple[Lease, QuotaChange, str]] = {}
        outcomes: list[LeaseReason] = []
        for lease in leases:
            try:
                found = self._quotas.describe(lease.entity).get(lease.quota_key)
                step = next_step(lease, found, now_ms)
                why = "its lever is gone" if lease.quota_key == REFUSE else ""
                if step in ("apply", "keep", "confirm") and self._loosens(lease):
                    why = "a wider quota is tighter than the lease, which would loosen it"
                    step = "close" if step == "apply" else "restore"
            except BrokerError as error:
                self._back_off(lease.entity, lease.principal, error)
                continue
            self.unverified.discard(lease.entity)
            if step in ("apply", "restore"):
                value = lease.enforced if step == "apply" else lease.previous
                changes[lease.entity] = (lease, QuotaChange(lease.entity, lease.quota_key, value), why)
                continue
            self._reset_backoff(lease.entity)
            if step == "confirm":
                outcomes.append((lease.to("in_force"), "found in force"))
            elif step == "close":
                outcomes.append((lease.to("restored"), why))
            elif step == "relinquish":
                theirs = lever_text(lease.quota_key, found)
                outcomes.append((lease.to("relinquished"), f"someone else set it to {theirs}, which stays"))
        if changes:
            errors = self._quotas.alter([change for _, change, _ in changes.values()])
            for entity, (lease, change, why) in changes.items():
                outcomes += self._outcome(lease, change, errors.get(entity), why)
        return outcomes

    def _loosens(self, lease: Lease) -> bool:
        wider = self._quotas.inherited(lease.entity, lease.quota_key)
        return wider is not None and wider < lease.enforced

    def _outcome(
        self, lease: Lease, change: QuotaChange, error: ClientQuotaError | None, why: str
    ) -> list[LeaseReason]:
        applying = change.value == lease.enforced
        if error is None:
            self._reset_backoff(lease.entity)
            if applying and lease.state == "in_force":
                # A hold with a later end: that was told before.
                return []
            return [(lease.to("in_force" if applying else "restored"), why)]
        if applying and lease.state == "applying" and isinstance(error, ClientQuotaRefusedError):
            return [(lease.to("failed"), str(error))]
        if applying:
            self.unverified.add(lease.entity)
        self._back_off(lease.entity, lease.principal, error)
        return []

    def _reset_backoff(self, entity: QuotaEntity) -> None:
        self._failures.pop(entity, None)
        self._retry_at.pop(entity, None)

    def _back_off(self, entity: QuotaEntity, principal: str | None, error: BrokerError) -> None:
        failures = self._failures.get(entity, 0)
        self._failures[entity] = failures + 1
        wait_ms = _BACKOFF_MS[min(failures, len(_BACKOFF_MS) - 1)]
        self._retry_at[entity] = self._clocks.steady_ms() + wait_ms
        now_ms = self._clocks.wall_ms()
        self._notify(Notice(now_ms, "trying again", f"in {wait_ms / 1000:g} s: {error}", principal, entity))
