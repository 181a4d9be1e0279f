"""Brings together what the tables and a controller's metadata log tell of blocks of producer ids."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from jobs.progress import progress_bar
from lifecycle.producer_id_blocks import (
    NONE,
    Block,
    BlockLoss,
    Consequence,
    Fate,
    Violation,
    consequence,
    fate,
    find_violations,
    hours_left,
    lost_at_restarts,
    pids_per_hour,
)
from tables.errors import TableNotFoundError
from tables.query.sql_query import query

FORGED_MARGIN = 1_000_000
"""Blocks lie one behind the other, so only an id beyond their end was never allocated; so many may be news to us."""
_REFUSED = "SELECT principal, decision_id, sample_pids FROM throttle_decisions WHERE action = 'THROTTLE'"


@dataclass(frozen=True)
class BrokerBlocks:
    """What one broker was given.

    Attributes:
        broker_id: Of the broker.
        blocks: How many.
        producer_ids: In them.
        pids_per_hour: Of the last 24 hours, or of as long as blocks are known.
        restarts: Epochs of the broker that blocks are known of, but for one.
        lost_pids: At these restarts, as far as it can be told.
        last_block_at_ms: When it was given the last one, ms since the epoch; None if none is known.
        errors: Error answers by name.
        throttled_answers: Answers that told it to wait, which is no error.
    """

    broker_id: int
    blocks: int
    producer_ids: int
    pids_per_hour: float
    restarts: int
    lost_pids: int
    last_block_at_ms: int | None
    errors: dict[str, int]
    throttled_answers: int

    def count(self, kind: Consequence) -> int:
        """Errors of a kind."""
        return sum(number for error, number in self.errors.items() if consequence(error) is kind)


@dataclass(frozen=True)
class MadeUp:
    """A producer id that a client used and no controller ever allocated.

    Attributes:
        producer_id: That was used.
        principal: Who used it.
        decision_id: The decision in `throttle_decisions` that names it.
    """

    producer_id: int
    principal: str
    decision_id: str


@dataclass(frozen=True)
class History:
    """What is known of blocks.

    Attributes:
        blocks: By their first id.
        answers: Rows of the view `known_pid_blocks`, errors among them.
        newest_issued: Greatest id seen that was handed out, by the first id of its block.
        now_ms: When this was read, ms since the epoch.
        complete_from: Ids from here on to the end were all in one of the blocks; None if that is not known.
        made_up: Producer ids that were used and never allocated.
    """

    blocks: tuple[Block, ...]
    answers: tuple[dict[str, Any], ...]
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
        return _holder(self.blocks, pid)

    def fate(self, pid: int, block: Block) -> Fate:
        """What became of a producer id that a block holds."""
        return fate(pid, block, self.blocks, self.newest_issued)

    def violations(self) -> list[Violation]:
        """What breaks a promise of KIP-730."""
        return find_violations(self.blocks)

    def losses(self) -> list[BlockLoss]:
        """What restarts cost."""
        return lost_at_restarts(self.blocks, self.newest_issued)

    def brokers(self) -> list[BrokerBlocks]:
        """Each broker, by its id."""
        rates, losses = pids_per_hour(self.blocks, self.now_ms), self.losses()
        ids = {*rates, *(row["broker_id"] for row in self.answers)}
        return [self._broker(broker_id, rates.get(broker_id, 0.0), losses) for broker_id in sorted(ids)]

    def _broker(self, broker_id: int, rate: float, losses: Sequence[BlockLoss]) -> BrokerBlocks:
        given = [block for block in self.blocks if block.broker_id == broker_id]
        answers = [row for row in self.answers if row["broker_id"] == broker_id]
        return BrokerBlocks(
            broker_id,
            len(given),
            sum(block.length for block in given),
            rate,
            max(0, len({block.broker_epoch for block in given}) - 1),
            sum(loss.pids for loss in losses if loss.block.broker_id == broker_id),
            max((block.allocated_at_ms for block in given), default=None),
            dict(Counter(row["error"] for row in answers if row["error"] != NONE)),
            sum(row["throttle_time_ms"] > 0 for row in answers),
        )


def read_history(tables: str | None, metadata_log: Path | None, now: datetime) -> History:
    """Read what is known of blocks.

    Args:
        tables: Folder of the path tables, or `catalog.schema`; None to read a log only.
        metadata_log: A controller's `__cluster_metadata-0`; None to read the tables only.
        now: Our clock.

    Raises:
        TableError: If the tables can't be read.
        MetadataLogError: If the log can't be read.
    """
    answers = () if tables is None else tuple(query(tables, "TABLE known_pid_blocks", now).records())
    tapped = [_block(row) for row in answers if row["error"] == NONE]
    older, complete_from = _older(metadata_log)
    # The same allocation in both is told by two clocks.
    known = {(block.broker_id, block.broker_epoch, block.first) for block in tapped}
    missing = [block for block in older if (block.broker_id, block.broker_epoch, block.first) not in known]
    ordered = tuple(sorted([*tapped, *missing]))
    now_ms = round(now.timestamp() * 1000)
    if tables is None:
        return History(ordered, answers, {}, now_ms, complete_from)
    issued, made_up = _newest_issued(tables, ordered, now), _made_up(tables, ordered, now)
    return History(ordered, answers, issued, now_ms, complete_from, made_up)


def _older(metadata_log: Path | None) -> tuple[tuple[Block, ...], int | None]:
    if metadata_log is None:
        return (), None
    from broker.log.metadata_blocks import read_metadata_blocks

    with progress_bar("reading the metadata log, bytes") as report:
        found = read_metadata_blocks(metadata_log, report)
    return found.blocks, None if found.skipped_batches else found.complete_from


def _block(row: Mapping[str, Any]) -> Block:
    at_ms = round(row["allocated_at"].timestamp() * 1000)
    return Block(row["first_producer_id"], row["length"], row["broker_id"], row["broker_epoch"], at_ms)


def _newest_issued(tables: str, ordered: Sequence[Block], now: datetime) -> dict[int, int]:
    select = (
        "SELECT max(result_producer_id) AS newest FROM producer_inits WHERE error = 'NONE' "
        "GROUP BY result_producer_id - result_producer_id % 1000"
    )
    try:
        rows = query(tables, select, now).records()
    except TableNotFoundError:
        # Tables of before: the blocks alone tell the most that can be lost.
        return {}
    newest: dict[int, int] = {}
    for issued in (row["newest"] for row in rows):
        block = _holder(ordered, issued)
        if block is not None:
            newest[block.first] = max(issued, newest.get(block.first, issued))
    return newest


def _made_up(tables: str, ordered: Sequence[Block], now: datetime) -> tuple[MadeUp, ...]:
    if not ordered:
        return ()
    limit = max(block.end for block in ordered) + FORGED_MARGIN
    try:
        rows = query(tables, _REFUSED, now).records()
    except TableNotFoundError:
        return ()
    found = {(pid, row["principal"]): row["decision_id"] for row in rows for pid in row["sample_pids"] or ()}
    return tuple(MadeUp(pid, who, decision) for (pid, who), decision in sorted(found.items()) if pid >= limit)


def _holder(ordered: Sequence[Block], pid: int) -> Block | None:
    position = bisect_right(ordered, pid, key=lambda block: block.first) - 1
    return ordered[position] if position >= 0 and pid in ordered[position] else None
