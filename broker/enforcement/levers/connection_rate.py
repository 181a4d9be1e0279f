"""The lever `connection_creation_rate`: delays new connections from an address. Open connections continue.

The limit affects all clients of an address. An address that another principal used in the last hour gets no limit.
"""

from collections.abc import Callable, Collection
from ipaddress import ip_address
from typing import Protocol

from broker.enforcement.levers.base import NEARLY_ALL, TargetLimits, Targets
from broker.enforcement.levers.client_quota import ClientQuotaLever, QuotaStore
from broker.enforcement.model import Lease, Target, ThrottleDecision
from broker.errors import BrokerError
from broker.kafka.quota_entity import CONNECTION_CREATION_RATE, QuotaEntity
from quota.decision import OTHER_CLIENTS

VALUE = 1.0
"""New connections per second from an address, on each broker and listener."""

_MAX_NAMED = 3


class AddressUse(Protocol):
    """The principals that produced from each address; see `EventAddresses`."""

    def unavailable_reason(self) -> str:
        """Return why the principals are unknown, or an empty text."""

    def principals(self, address: str) -> Collection[str]:
        """Return the principals that used an address in the last hour."""


class ConnectionRate(ClientQuotaLever):
    """A lever that limits new connections, except from `own_addresses`."""

    suffices = False

    def __init__(self, quotas: QuotaStore, use: AddressUse, own_addresses: Callable[[], Collection[str]]) -> None:
        super().__init__(quotas, CONNECTION_CREATION_RATE, VALUE)
        self._use, self._own_addresses = use, own_addresses

    def unavailable_reason(self) -> str:
        """See `AddressUse.unavailable_reason`."""
        return self._use.unavailable_reason()

    def targets(self, decision: ThrottleDecision, _limits: TargetLimits) -> Targets:
        """Choose those addresses of refused producer ids that only this principal used."""
        if not decision.principal.startswith("User:"):
            return Targets((), "a client quota applies only to principals of type User")
        try:
            own = {_canonical(each) for each in self._own_addresses()}
        except BrokerError as error:
            return Targets((), f"the brokers' addresses can't be read ({error})")
        found = [address for address in decision.addresses if address != OTHER_CLIENTS]
        others = [each for each in found if _canonical(each) not in own]
        free = [each for each in others if {*self._use.principals(each)} == {decision.principal}]
        if not free:
            return Targets((), "no address is used by it alone" if found else "no addresses are known")
        named = ", ".join(free[:_MAX_NAMED]) + (", …" if len(free) > _MAX_NAMED else "")
        chosen = tuple(Target("connection_creation_rate", QuotaEntity(ip=address)) for address in free)
        refused = decision.addresses
        cover = sum(refused[each] for each in free) >= NEARLY_ALL * sum(refused.values())
        return Targets(chosen, f"addresses that only this principal used ({named})", cover)

    def _why_end(self, lease: Lease) -> str:
        others = {*self._use.principals(lease.target.entity.ip or "")} - {lease.principal}
        return f"{min(others)} uses the address, too" if others else super()._why_end(lease)


def _canonical(address: str) -> str:
    """Return an address as Python writes it.

    The plugin writes an IPv6 address without `::`, and may append a zone.

    Examples:
        >>> _canonical("0:0:0:0:0:0:0:1%lo"), _canonical("10.0.0.1")
        ('::1', '10.0.0.1')
    """
    try:
        return str(ip_address(address.partition("%")[0]))
    except ValueError:
        return address
