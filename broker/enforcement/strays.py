"""What stands on the brokers without a lease: removes what is certainly ours, and reports the rest."""

from collections.abc import Collection, Mapping
from contextlib import suppress

from broker.enforcement.levers.base import Lever, Stray
from broker.enforcement.model import Lease, LeverName
from broker.errors import BrokerError

_MOST = 10


def close_levers(levers: Mapping[LeverName, Lever]) -> None:
    """Let each lever take back what is no lease; what can't be now is left for the next start."""
    for lever in levers.values():
        with suppress(BrokerError):
            lever.close()


def clear_strays(levers: Mapping[LeverName, Lever], leases: Collection[Lease], now_ms: int) -> list[Stray]:
    """Remove what looks like a lease's and is certainly ours; return what an operator has to decide about.

    What can't be read or removed now is left for the next time.

    Args:
        levers: By name.
        leases: Open leases.
        now_ms: The brokers' time.
    """
    left: list[Stray] = []
    for lever in levers.values():
        with suppress(BrokerError):
            for stray in lever.strays(leases, now_ms):
                if stray.remove is None:
                    left.append(stray)
                else:
                    stray.remove()
    return left[:_MOST]
