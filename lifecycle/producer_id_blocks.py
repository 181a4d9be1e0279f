"""Blocks of producer ids (KIP-730), and the fate of an id in them."""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

BLOCK_LENGTH = 1000
"""Producer ids in a block, in all versions of Kafka."""


@dataclass(frozen=True, order=True)
class Block:
    """A block of producer ids allocated to a broker.

    Attributes:
        broker_epoch: The broker's epoch when it requested the block; -1 if unknown.
        allocated_at_ms: When the controller answered the request.
    """

    first: int
    length: int
    broker_id: int
    broker_epoch: int
    allocated_at_ms: int

    @property
    def end(self) -> int:
        """The block's last id, plus 1."""
        return self.first + self.length

    def __contains__(self, producer_id: int) -> bool:
        return self.first <= producer_id < self.end


class Fate(str, Enum):
    """Fate of a producer id."""

    HANDED_OUT = "handed out"
    LOST = "lost"
    NOT_YET = "not yet handed out"
    NOT_KNOWN = "not known"


@dataclass(frozen=True)
class MadeUp:
    """A producer id that a client used, but that no controller ever allocated.

    `decision_id` is a decision in `throttle_decisions` that names the id.
    """

    producer_id: int
    principal: str
    decision_id: str


@dataclass(frozen=True)
class History:
    """Known blocks.

    Attributes:
        blocks: The blocks, sorted by their first id.
        newest_issued: By a block's first id, the block's highest id known to have been handed out.
    """

    blocks: tuple[Block, ...]
    newest_issued: Mapping[int, int] = field(default_factory=dict)
    made_up: tuple[MadeUp, ...] = ()

    @property
    def end(self) -> int:
        """The highest id known to have been allocated, plus 1; 0 if no block is known."""
        return max((block.end for block in self.blocks), default=0)

    def holder(self, producer_id: int) -> Block | None:
        """Return the block that contains a producer id, or None."""
        position = bisect_right(self.blocks, producer_id, key=lambda block: block.first) - 1
        return self.blocks[position] if position >= 0 and producer_id in self.blocks[position] else None

    def fate(self, producer_id: int, block: Block) -> Fate:
        """Return the fate of a producer id of a block. Brokers hand out ids in ascending order."""
        mine = [each for each in self.blocks if each.broker_id == block.broker_id]
        life = [each for each in mine if each.broker_epoch == block.broker_epoch]
        newest = max(
            (self.newest_issued[each.first] for each in life if each.first in self.newest_issued), default=None
        )
        if newest is None:
            return Fate.NOT_KNOWN
        if producer_id <= newest:
            return Fate.HANDED_OUT
        return Fate.LOST if any(each.broker_epoch > block.broker_epoch for each in mine) else Fate.NOT_YET
