"""Blocks of producer ids, and what KIP-730 promises about their allocation."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

BLOCK_LENGTH = 1000
"""Producer ids in a block, in all versions of Kafka."""
MAX_PRODUCER_ID = 2**63 - 1
PREFETCH_SHARE = 0.9
"""A broker prefetches the next block when this share of a block is used."""
CLOCK_TOLERANCE_MS = 10_000
"""Maximum clock skew between controllers. If the times of two blocks differ by less, their order is unknown."""

_HOUR_MS = 3_600_000


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


# The promises


@dataclass(frozen=True)
class Violation:
    """A block that breaks a promise of KIP-730.

    Attributes:
        promise: `no overlap`, `start >= last end` or `epoch not stale`.
        other: What the block conflicts with: the end of other blocks, or a newer epoch.
    """

    promise: str
    block: Block
    other: int


def find_violations(blocks: Iterable[Block]) -> list[Violation]:
    """Check blocks against the promises of KIP-730. `blocks` must contain each known block once."""
    known = list(blocks)
    found = [*_overlaps(known)]
    overlapping = {violation.block for violation in found}
    by_time = sorted(known, key=lambda block: (block.allocated_at_ms, block.first))
    settled, last_end, newest_epoch = 0, 0, dict[int, int]()
    for number, block in enumerate(by_time):
        while settled < number and by_time[settled].allocated_at_ms <= block.allocated_at_ms - CLOCK_TOLERANCE_MS:
            old = by_time[settled]
            last_end = max(last_end, old.end)
            newest_epoch[old.broker_id] = max(newest_epoch.get(old.broker_id, -1), old.broker_epoch)
            settled += 1
        if block.first < last_end and block not in overlapping:
            found.append(Violation("start >= last end", block, last_end))
        newest = newest_epoch.get(block.broker_id, -1)
        if 0 <= block.broker_epoch < newest:
            found.append(Violation("epoch not stale", block, newest))
    return found


def _overlaps(blocks: Iterable[Block]) -> Iterator[Violation]:
    end = 0
    for block in sorted(blocks, key=lambda block: (block.first, block.allocated_at_ms, block.length)):
        if block.first < end:
            yield Violation("no overlap", block, end)
        end = max(end, block.end)


# Fate of an id


class Fate(str, Enum):
    """Fate of a producer id."""

    HANDED_OUT = "handed out"
    LOST = "lost"
    NOT_YET = "not yet handed out"
    NOT_KNOWN = "not known"


def fate(producer_id: int, block: Block, blocks: Iterable[Block], newest_issued: Mapping[int, int]) -> Fate:
    """Return the fate of a producer id of a block. Brokers hand out ids in ascending order.

    `blocks` has all known blocks. `newest_issued` maps a block's first id to the block's highest id known to have been
    handed out.
    """
    mine = [each for each in blocks if each.broker_id == block.broker_id]
    life = [each for each in mine if each.broker_epoch == block.broker_epoch]
    newest = max((newest_issued[each.first] for each in life if each.first in newest_issued), default=None)
    if newest is None:
        return Fate.NOT_KNOWN
    if producer_id <= newest:
        return Fate.HANDED_OUT
    return Fate.LOST if any(each.broker_epoch > block.broker_epoch for each in mine) else Fate.NOT_YET


# Ids lost at restarts


@dataclass(frozen=True)
class BlockLoss:
    """A block with ids that its broker lost in a restart. Brokers keep blocks only in memory.

    Attributes:
        pids: Number of ids that will never be handed out.
        is_exact: Whether an id of the block is known to have been handed out. If not, `pids` is an upper bound.
    """

    block: Block
    pids: int
    is_exact: bool


def lost_at_restarts(blocks: Iterable[Block], newest_issued: Mapping[int, int]) -> list[BlockLoss]:
    """Estimate the ids lost when brokers restarted: the rest of the block in use, and a prefetched block.

    `newest_issued` maps a block's first id to the block's highest id known to have been handed out.
    """
    lives: dict[tuple[int, int], list[Block]] = defaultdict(list)
    for block in sorted(blocks):
        lives[block.broker_id, block.broker_epoch].append(block)
    newest_epoch: dict[int, int] = {}
    for broker_id, epoch in lives:
        newest_epoch[broker_id] = max(newest_epoch.get(broker_id, epoch), epoch)
    ended = [held for (broker_id, epoch), held in lives.items() if epoch != newest_epoch[broker_id]]
    losses = [loss for held in ended for loss in _losses_of_life(held, newest_issued)]
    return sorted((loss for loss in losses if loss.pids), key=lambda loss: loss.block)


def _losses_of_life(held: Sequence[Block], newest_issued: Mapping[int, int]) -> Iterator[BlockLoss]:
    for later, block in enumerate(reversed(held)):
        yield _loss(block, later, newest_issued)
        if block.first in newest_issued:
            # Ids are handed out in order, so earlier blocks were used up.
            return


def _loss(block: Block, later: int, newest_issued: Mapping[int, int]) -> BlockLoss:
    if block.first in newest_issued:
        return BlockLoss(block, block.end - 1 - newest_issued[block.first], is_exact=True)
    if later == 0:
        return BlockLoss(block, block.length, is_exact=False)
    # A single later block may be a prefetch. If there are two later blocks, the broker used this block up.
    return BlockLoss(block, round(block.length * (1 - PREFETCH_SHARE)) if later == 1 else 0, is_exact=False)


def pids_per_hour(blocks: Iterable[Block], now_ms: int) -> dict[int, float]:
    """Return each broker's producer ids per hour, over the last 24 hours or the known part of them."""
    known = list(blocks)
    ages_ms = [now_ms - block.allocated_at_ms for block in known]
    hours = min(24.0, max(1.0, max(ages_ms, default=0) / _HOUR_MS))
    rates = dict.fromkeys((block.broker_id for block in known), 0.0)
    for block, age_ms in zip(known, ages_ms, strict=True):
        if age_ms < 24 * _HOUR_MS:
            rates[block.broker_id] += block.length / hours
    return rates


def hours_left(next_producer_id: int, pids_per_hour: float) -> float | None:
    """Return the hours until a cluster runs out of ids; None if never.

    Examples:
        >>> round(hours_left(0, 1_000_000) / 24 / 365.25)
        1052175683
    """
    return None if pids_per_hour <= 0 else (MAX_PRODUCER_ID - next_producer_id) / pids_per_hour
