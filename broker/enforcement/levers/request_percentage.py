"""The lever `request_percentage`: slows a few client ids of a user, or the whole user.

Brokers answer each request, then stop reading that connection for up to `quota.window.size.seconds`.
"""

from collections.abc import Collection

from broker.enforcement.levers.base import Stray, TargetLimits, Targets
from broker.enforcement.levers.canary import CANARY, Canary
from broker.enforcement.levers.client_quota import ClientQuotaLever, QuotaStore
from broker.enforcement.levers.user_targets import user_targets
from broker.enforcement.model import Lease, Target, ThrottleDecision
from broker.kafka.quota_entity import REQUEST_PERCENTAGE, QuotaChange, QuotaEntity

VALUE = 0.01
"""Percent of a request handler thread: practically every request exceeds it."""

_CANARY = QuotaEntity(CANARY)
_CANARY_VALUE = 100.0


class RequestPercentage(ClientQuotaLever):
    """Narrowed to client ids where they make up nearly all refused producer ids."""

    suffices = True

    def __init__(self, quotas: QuotaStore, canary: Canary) -> None:
        super().__init__(quotas, REQUEST_PERCENTAGE, VALUE)
        self.canary = self._canary = canary

    def unavailable_reason(self) -> str:
        """Return the reconciler's reason."""
        return self._canary.reconciler_reason()

    def targets(self, decision: ThrottleDecision, limits: TargetLimits) -> Targets:
        """Choose a few client ids, or the whole user."""
        return user_targets(decision, limits)

    def strays(self, known: Collection[Lease], now_ms: int) -> list[Stray]:
        """Find quotas with the value of leases, and a canary left behind."""
        found = super().strays(known, now_ms)
        canary = CanaryQuota(self._quotas)
        if not self._canary.is_watched and canary.is_set():
            target = Target(self.name, _CANARY)
            found.append(Stray(target, "a canary was left behind", "", canary.unset))
        return found


class CanaryQuota:
    """A client quota of the user `CANARY`, which slows nobody."""

    def __init__(self, quotas: QuotaStore) -> None:
        self._quotas = quotas

    def set(self) -> None:
        """Set it."""
        self._alter(_CANARY_VALUE)

    def is_set(self) -> bool:
        """Whether the brokers have it."""
        return REQUEST_PERCENTAGE in self._quotas.describe(_CANARY)

    def unset(self) -> None:
        """Remove it."""
        self._alter(None)

    def _alter(self, value: float | None) -> None:
        error = self._quotas.alter([QuotaChange(_CANARY, REQUEST_PERCENTAGE, value)])[_CANARY]
        if error is not None:
            raise error
