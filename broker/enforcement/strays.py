"""What stands on the brokers without a lease: removes what is certainly ours, and finds the rest."""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from broker.enforcement.levers.base import Lever, Stray
from broker.enforcement.model import Lease, LeverName
from broker.errors import BrokerError


def for_each(levers: Mapping[LeverName, Lever], call: Callable[[Lever], None]) -> None:
    """Call with each lever; one whose brokers do not answer now is called again another time."""
    for lever in levers.values():
        with suppress(BrokerError):
            call(lever)


def clear_strays(
    levers: Mapping[LeverName, Lever],
    leases: Collection[Lease],
    now_ms: int,
    counts: Callable[[Stray], bool] = lambda _: True,
) -> list[Stray]:
    """Remove what looks like a lease's and is certainly ours; return what stays: others' and what can't be removed.

    Args:
        levers: By name.
        leases: Open leases.
        now_ms: The brokers' time.
        counts: Whether a stray is to be looked at; all others stay and are not returned.
    """
    left: list[Stray] = []

    def clear(lever: Lever) -> None:
        left.extend(each for each in lever.strays(leases, now_ms) if counts(each) and not _is_removed(each))

    for_each(levers, clear)
    return left


def _is_removed(stray: Stray) -> bool:
    if stray.remove is None:
        return False
    try:
        stray.remove()
    except BrokerError:
        return False
    return True
