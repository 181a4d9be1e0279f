"""The state of one principal: the layered Bloom filter and the ledger.

More words of this package:

- **live quantum**: the current quantum, or one of the `layer_count` quanta before it
- **late event**: an event that is older than the ledger's clock by more than `late_grace_seconds`
- **owed PID**: a refused PID that took a token. It is stored as an admitted PID is
- **refresh**: the copy of a known PID in a later quantum. A *renewal* is that of a throttle
- **saturated quantum**: a quantum in which the filter had no room for PIDs that take no token
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from state.manager_cache import ProducerIdQuotaManagerCache

__all__ = ["ProducerIdQuotaManagerCache"]


def __getattr__(name: str) -> object:
    """Import the KIP's class on first use, so that hosts without rbloom can import `state.errors`."""
    if name in __all__:
        from state import manager_cache

        return manager_cache.ProducerIdQuotaManagerCache
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
