"""The state of one principal: the layered Bloom filter, the ledger, its byte codec."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from state.manager_cache import ProducerIdQuotaManagerCache

__all__ = ["ProducerIdQuotaManagerCache"]


def __getattr__(name: str) -> object:
    """Return the KIP's class, imported on first use: hosts without rbloom import only this package's errors."""
    if name in __all__:
        from state import manager_cache

        return manager_cache.ProducerIdQuotaManagerCache
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
