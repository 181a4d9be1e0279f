"""The state of one principal: the layered Bloom filter, the ledger, its byte codec."""

from state.manager_cache import ProducerIdQuotaManagerCache

__all__ = ["ProducerIdQuotaManagerCache"]
