"""What stands on the brokers without a lease: removes what is certainly ours, and finds the rest."""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from broker.enforcement.levers.base import Lever, Stray
from broker.enforcement.model import Lease, LeverName
from broker.errors import BrokerError

_MOST = 10


def for_each(levers: Mapping[LeverName, Lever], call: Callable[[Lever], None]) -> None:
    """Call with each lever; one whose brokers do not answer now is called again another time."""
    for lever in levers.values():
        with suppress(BrokerError):
            call(lever)


def clear_strays(levers: Mapping[LeverName, Lever], leases: Collection[Lease], now_ms: int) -> list[Stray]:
    """Remove what looks like a lease's and is certainly ours; return what an operator has to decide about.

    Args:
        levers: By name.
        leases: Open leases.
        now_ms: The brokers' time.
    """
    left: list[Stray] = []

    def clear(lever: Lever) -> None:
        for stray in lever.strays(leases, now_ms):
            if stray.remove is None:
                left.append(stray)
            else:
                stray.remove()

    for_each(levers, clear)
    return left[:_MOST]
