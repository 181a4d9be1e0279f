"""A model of the controller's allocation of producer id blocks (KIP-730), with its invariants."""

from dataclasses import dataclass, field

from lifecycle.producer_id_blocks import BLOCK_LENGTH, MAX_PRODUCER_ID

NONE, CLUSTER_AUTHORIZATION_FAILED = "NONE", "CLUSTER_AUTHORIZATION_FAILED"


@dataclass(frozen=True)
class Allocation:
    """The controller's answer.

    Attributes:
        error: `NONE`, or the name of Kafka's error.
        first: Of the block, -1 on an error.
        length: Of the block, 0 on an error.
    """

    error: str
    first: int = -1
    length: int = 0


@dataclass
class Allocator:
    """The controller's part of KIP-730: one thread, one number.

    Attributes:
        next_producer_id: Where the next block begins.
        brokers: Epoch by id of the brokers that are registered.
    """

    next_producer_id: int = 0
    brokers: dict[int, int] = field(default_factory=dict)

    @classmethod
    def after_zookeeper(cls, block_start: int, block_end: int) -> "Allocator":
        """Take over from ZooKeeper: KRaft goes on behind the latest block there, whoever holds it.

        Args:
            block_start: `block_start` of the znode `/latest_producer_id_block`.
            block_end: Its `block_end`, which is the last id of the block, not the one behind it.
        """
        if block_end < block_start:
            msg = f"the block of ZooKeeper ends at {block_end}, before its start {block_start}: read the znode again"
            raise ValueError(msg)
        return cls(block_end + 1)

    def allocate(self, broker_id: int, broker_epoch: int, *, authorized: bool = True) -> Allocation:
        """Answer ALLOCATE_PRODUCER_IDS. It is not idempotent: each success is another block."""
        if not authorized:
            return Allocation(CLUSTER_AUTHORIZATION_FAILED)
        if self.brokers.get(broker_id) != broker_epoch:
            return Allocation("STALE_BROKER_EPOCH")
        if self.next_producer_id > MAX_PRODUCER_ID - BLOCK_LENGTH:
            return Allocation("UNKNOWN_SERVER_ERROR")
        first = self.next_producer_id
        self.next_producer_id += BLOCK_LENGTH
        return Allocation(NONE, first, BLOCK_LENGTH)
