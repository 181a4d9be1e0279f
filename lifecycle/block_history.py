"""The known blocks of producer ids."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lifecycle.producer_id_blocks import Block, BlockLoss, hours_left, lost_at_restarts, pids_per_hour


@dataclass(frozen=True)
class BrokerBlocks:
    """Blocks that one broker received.

    Attributes:
        pids_per_hour: Ids received per hour, over the last 24 hours or the known part of them.
        restarts: Number of the broker's epochs with known blocks, minus one.
        lost_pids: Estimated number of ids lost at these restarts.
        last_block_at_ms: When the broker received its last block; None if no block is known.
    """

    broker_id: int
    blocks: int
    producer_ids: int
    pids_per_hour: float
    restarts: int
    lost_pids: int
    last_block_at_ms: int | None


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
    newest_issued: Mapping[int, int]
    now_ms: int
    made_up: tuple[MadeUp, ...] = ()

    @property
    def end(self) -> int:
        """The highest id known to have been allocated, plus 1; 0 if no block is known."""
        return max((block.end for block in self.blocks), default=0)

    @property
    def pids_per_hour(self) -> float:
        """Ids that all brokers together receive per hour."""
        return sum(pids_per_hour(self.blocks, self.now_ms).values())

    @property
    def hours_left(self) -> float | None:
        """Hours until the ids reach 2^63 at the rate `pids_per_hour`; None if never."""
        return hours_left(self.end, self.pids_per_hour)

    def losses(self) -> list[BlockLoss]:
        """Return the producer ids that restarts lost."""
        return lost_at_restarts(self.blocks, self.newest_issued)

    def brokers(self) -> list[BrokerBlocks]:
        """Return the brokers, sorted by id."""
        rates, losses = pids_per_hour(self.blocks, self.now_ms), self.losses()
        return [self._broker(broker_id, rate, losses) for broker_id, rate in sorted(rates.items())]

    def _broker(self, broker_id: int, rate: float, losses: Sequence[BlockLoss]) -> BrokerBlocks:
        given = [block for block in self.blocks if block.broker_id == broker_id]
        return BrokerBlocks(
            broker_id,
            len(given),
            sum(block.length for block in given),
            rate,
            max(0, len({block.broker_epoch for block in given}) - 1),
            sum(loss.pids for loss in losses if loss.block.broker_id == broker_id),
            max((block.allocated_at_ms for block in given), default=None),
        )


def holder(ordered: Sequence[Block], pid: int) -> Block | None:
    """Return the block that contains a producer id, or None. The blocks must be sorted by their first ids."""
    position = bisect_right(ordered, pid, key=lambda block: block.first) - 1
    return ordered[position] if position >= 0 and pid in ordered[position] else None
