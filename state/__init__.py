"""The state of one principal: the layered Bloom filter, the ledger, and the ledger's bytes.

Words of this package: a quantum is a `layer_count`-th of the window, and a tick is a 90th of a quantum. An episode is a
throttle from its first refusal to its release. A late event is older than the ledger's clock by more than the grace. A
PID is renewed when it is copied to a later quantum. A PID is left out when the filter has no room for it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from state.manager_cache import ProducerIdQuotaManagerCache

__all__ = ["ProducerIdQuotaManagerCache"]


def __getattr__(name: str) -> object:
    """Return the KIP's class. It is imported on first use, so hosts without rbloom can import this package's errors."""
    if name in __all__:
        from state import manager_cache

        return manager_cache.ProducerIdQuotaManagerCache
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
