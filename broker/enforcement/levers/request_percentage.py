"""The lever `request_percentage`: slows a few client ids of a user, or the whole user.

Brokers answer each request, then stop reading that connection for up to `quota.window.size.seconds`.
"""

from collections.abc import Callable, Collection
from functools import partial

from broker.enforcement.levers.base import Stray, TargetLimits, Targets
from broker.enforcement.levers.canary import CANARY, Canary
from broker.enforcement.levers.client_quota import ClientQuotaLever, QuotaStore
from broker.enforcement.levers.user_targets import user_targets
from broker.enforcement.model import Clocks, Lease, Target, ThrottleDecision
from broker.enforcement.notices import Notice
from broker.kafka.quota_entity import REQUEST_PERCENTAGE, QuotaChange, QuotaEntity

VALUE = 0.01
"""Percent of a request handler thread: practically every request exceeds it."""

_CANARY = QuotaEntity(CANARY)
_CANARY_VALUE = 100.0


class RequestPercentage(ClientQuotaLever):
    """Slows a few client ids if nearly all refused producer ids come from them."""

    suffices = True

    def __init__(self, quotas: QuotaStore, clocks: Clocks, notify: Callable[[Notice], None]) -> None:
        super().__init__(quotas, REQUEST_PERCENTAGE, VALUE)
        self.canary = self._canary = Canary(self, "client quotas of users", clocks, notify)

    def unavailable_reason(self) -> str:
        """Return the reconciler's reason."""
        return self._canary.reconciler_reason()

    def targets(self, decision: ThrottleDecision, limits: TargetLimits) -> Targets:
        """Choose a few client ids, or the whole user."""
        return user_targets(decision, limits)

    def strays(self, known: Collection[Lease], now_ms: int) -> list[Stray]:
        """Find quotas with the value of leases, and a canary left behind."""
        found = super().strays(known, now_ms)
        if not self._canary.is_watched and self.has_canary():
            target, remove = Target(self.name, _CANARY), partial(self.write_canary, is_set=False)
            found.append(Stray(target, "a canary was left behind", "", remove))
        return found

    def has_canary(self) -> bool:
        """Whether the canary has a client quota, which slows nobody."""
        return REQUEST_PERCENTAGE in self._quotas.describe(_CANARY)

    def write_canary(self, *, is_set: bool) -> None:
        """Set or remove the canary's client quota."""
        change = QuotaChange(_CANARY, REQUEST_PERCENTAGE, _CANARY_VALUE if is_set else None)
        error = self._quotas.alter([change])[_CANARY]
        if error is not None:
            raise error
