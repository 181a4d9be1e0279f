"""What is remembered of one principal: the layered Bloom filter, the ledger, its byte codec."""
