"""The history of blocks of producer ids, from the tables and from a metadata log."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lifecycle.producer_id_blocks import (
    Block,
    BlockLoss,
    Fate,
    Violation,
    fate,
    find_violations,
    hours_left,
    lost_at_restarts,
    pids_per_hour,
)


@dataclass(frozen=True)
class BrokerBlocks:
    """Blocks that one broker received.

    Attributes:
        pids_per_hour: Of the last 24 hours, or of as long as blocks are known.
        restarts: Epochs of the broker that blocks are known of, but for one.
        lost_pids: At these restarts, as far as known.
        last_block_at_ms: When it was given the last one, ms since the epoch; None if none is known.
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
    """A producer id that a client used and no controller ever allocated.

    Attributes:
        decision_id: The decision in `throttle_decisions` that names it.
    """

    producer_id: int
    principal: str
    decision_id: str


@dataclass(frozen=True)
class History:
    """Known blocks.

    Attributes:
        blocks: By their first id.
        newest_issued: Greatest id seen that was handed out, by the first id of its block.
        now_ms: When this was read, ms since the epoch.
        complete_from: Ids from here on to the end were all in one of the blocks; None if that is not known.
        made_up: Producer ids that were used and never allocated.
    """

    blocks: tuple[Block, ...]
    newest_issued: Mapping[int, int]
    now_ms: int
    complete_from: int | None = None
    made_up: tuple[MadeUp, ...] = ()

    @property
    def end(self) -> int:
        """Behind the highest id that is known to be allocated."""
        return max((block.end for block in self.blocks), default=0)

    @property
    def pids_per_hour(self) -> float:
        """Taken by all brokers together."""
        return sum(pids_per_hour(self.blocks, self.now_ms).values())

    @property
    def hours_left(self) -> float | None:
        """Until 2^63 is reached at this rate."""
        return hours_left(self.end, self.pids_per_hour)

    def holder(self, pid: int) -> Block | None:
        """The block that holds a producer id."""
        return holder(self.blocks, pid)

    def fate(self, pid: int, block: Block) -> Fate:
        """Return the fate of a producer id in a block."""
        return fate(pid, block, self.blocks, self.newest_issued)

    def violations(self) -> list[Violation]:
        """Return violations of KIP-730."""
        return find_violations(self.blocks)

    def losses(self) -> list[BlockLoss]:
        """Return the producer ids that restarts lost."""
        return lost_at_restarts(self.blocks, self.newest_issued)

    def brokers(self) -> list[BrokerBlocks]:
        """Each broker, by its id."""
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
    """Return the block that holds a producer id, of blocks in the order of their first ids."""
    position = bisect_right(ordered, pid, key=lambda block: block.first) - 1
    return ordered[position] if position >= 0 and pid in ordered[position] else None
