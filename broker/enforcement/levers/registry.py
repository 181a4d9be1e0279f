"""The levers of a cluster. A new one is a module beside this one, its name in `LeverName`, and a line here."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from broker.enforcement.levers.authorizers import Authorizers
from broker.enforcement.levers.base import Lever
from broker.enforcement.levers.canary import Canary
from broker.enforcement.levers.client_quota import QuotaStore
from broker.enforcement.levers.connection_rate import AddressUse, ConnectionRate
from broker.enforcement.levers.hold import CanaryHold, Hold, HoldStore
from broker.enforcement.levers.request_percentage import CanaryQuota, RequestPercentage
from broker.enforcement.model import Clocks, LeverName
from broker.enforcement.notices import Notice


@dataclass(frozen=True)
class LeverParts:
    """What levers act on and learn from.

    Attributes:
        quotas: The brokers' client quotas.
        holds: The brokers' holds.
        authorizers: Returns the class of each broker's authorizer, by broker id.
        use: Who produced from where.
        own_addresses: Returns addresses that are never limited.
        clocks: The brokers' time and a monotonic clock.
        notify: Called with notices about levers.
    """

    quotas: QuotaStore
    holds: HoldStore
    authorizers: Callable[[], Mapping[int, str]]
    use: AddressUse
    own_addresses: Callable[[], Collection[str]]
    clocks: Clocks
    notify: Callable[[Notice], None]


def levers(parts: LeverParts) -> dict[LeverName, Lever]:
    """Return all levers: also one that is not to be used ends what it began."""

    def canary(value: CanaryHold | CanaryQuota, what: str) -> Canary:
        return Canary(value, what, parts.clocks, parts.notify)

    authorizers = Authorizers(parts.authorizers, parts.clocks, parts.notify)
    every: tuple[Lever, ...] = (
        Hold(
            parts.holds,
            authorizers,
            canary(CanaryHold(parts.holds, parts.clocks.now_ms), "ACLs"),
            parts.clocks.steady_ms,
        ),
        ConnectionRate(parts.quotas, parts.use, parts.own_addresses),
        RequestPercentage(parts.quotas, canary(CanaryQuota(parts.quotas), "client quotas of users")),
    )
    return {lever.name: lever for lever in every}
