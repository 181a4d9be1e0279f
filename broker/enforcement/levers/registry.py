"""The levers of a cluster. A new lever needs a module, a name in `LeverName`, and a line here."""

from collections.abc import Callable, Collection, Mapping

from broker.enforcement.levers.base import Lever
from broker.enforcement.levers.client_quota import QuotaStore
from broker.enforcement.levers.connection_rate import AddressUse, ConnectionRate
from broker.enforcement.levers.hold import Hold, HoldStore
from broker.enforcement.levers.request_percentage import RequestPercentage
from broker.enforcement.model import Clocks, LeverName
from broker.enforcement.notices import Notice


def levers(
    quotas: QuotaStore,
    holds: HoldStore,
    authorizers: Callable[[], Mapping[int, str]],
    use: AddressUse,
    own_addresses: Callable[[], Collection[str]],
    clocks: Clocks,
    notify: Callable[[Notice], None],
) -> dict[LeverName, Lever]:
    """Return all levers. A lever that the operator excludes still ends its leases."""
    every: tuple[Lever, ...] = (
        Hold(holds, authorizers, clocks, notify),
        ConnectionRate(quotas, use, own_addresses),
        RequestPercentage(quotas, clocks, notify),
    )
    return {lever.name: lever for lever in every}
