"""Settings on the brokers without a lease: removes those that are certainly ours, and finds the rest."""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from broker.enforcement.levers.base import Lever, Stray
from broker.enforcement.levers.canary import Canary
from broker.enforcement.model import Lease, LeverName
from broker.errors import BrokerError


def for_each_canary(levers: Mapping[LeverName, Lever], call: Callable[[Canary], None]) -> None:
    """Call with the canary of each lever, where the brokers answer."""
    for canary in [lever.canary for lever in levers.values() if lever.canary is not None]:
        with suppress(BrokerError):
            call(canary)


def clear_strays(
    levers: Mapping[LeverName, Lever],
    leases: Collection[Lease],
    now_ms: int,
    counts: Callable[[Stray], bool] = lambda _: True,
) -> tuple[list[Stray], list[BrokerError]]:
    """Remove those settings without a lease that `counts` selects and that are certainly ours.

    Return the rest of these, and the errors of levers whose brokers do not answer.
    """
    left: list[Stray] = []
    errors: list[BrokerError] = []
    for lever in levers.values():
        try:
            left += [each for each in lever.strays(leases, now_ms) if counts(each) and not _is_removed(each)]
        except BrokerError as error:
            errors.append(error)
    return left, errors


def _is_removed(stray: Stray) -> bool:
    if stray.remove is None:
        return False
    try:
        stray.remove()
    except BrokerError:
        return False
    return True
