"""A model of the controller's allocation of producer id blocks (KIP-730)."""

from dataclasses import dataclass, field

from lifecycle.producer_id_blocks import BLOCK_LENGTH, Block


@dataclass
class Allocator:
    """The controller's part of KIP-730: one thread, one number; `brokers` has the epochs of those registered."""

    next_producer_id: int = 0
    brokers: dict[int, int] = field(default_factory=dict)

    @classmethod
    def after_zookeeper(cls, block_end: int) -> "Allocator":
        """Take over from ZooKeeper behind the last id of the latest block there, whoever holds it."""
        return cls(block_end + 1)

    def allocate(self, broker_id: int, now_ms: int) -> Block:
        """Answer ALLOCATE_PRODUCER_IDS. It is not idempotent: each success is another block."""
        first = self.next_producer_id
        self.next_producer_id += BLOCK_LENGTH
        return Block(first, BLOCK_LENGTH, broker_id, self.brokers[broker_id], now_ms)
