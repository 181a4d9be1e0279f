"""Reads the history of producer id blocks from the tables."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from lifecycle.producer_id_blocks import BLOCK_LENGTH, Block, History, MadeUp
from tables.errors import TableNotFoundError
from tables.query.sql_query import query

FORGED_MARGIN = 1_000_000
"""A producer id this far beyond the last known block was never allocated, because blocks are consecutive."""
_REFUSED = "SELECT principal, decision_id, sample_pids FROM throttle_decisions WHERE action = 'THROTTLE'"


def read_history(tables: str, now: datetime) -> History:
    """Return the known history of blocks.

    Raises:
        TableError: If the tables can't be read.
    """
    known = History(tuple(sorted(_block(row) for row in query(tables, "TABLE pid_blocks", now).records())))
    return replace(known, newest_issued=_newest_issued(tables, known, now), made_up=_made_up(tables, known, now))


def _block(row: Mapping[str, Any]) -> Block:
    at_ms = round(row["allocated_at"].timestamp() * 1000)
    return Block(row["first_producer_id"], row["length"], row["broker_id"], row["broker_epoch"], at_ms)


def _newest_issued(tables: str, known: History, now: datetime) -> dict[int, int]:
    select = (
        "SELECT max(result_producer_id) AS newest FROM producer_inits WHERE error = 'NONE' "
        "GROUP BY result_producer_id - result_producer_id % :block_length"
    )
    try:
        rows = query(tables, select, now, {"block_length": BLOCK_LENGTH}).records()
    except TableNotFoundError:
        return {}
    newest: dict[int, int] = {}
    for issued in (row["newest"] for row in rows):
        block = known.holder(issued)
        if block is not None:
            newest[block.first] = max(issued, newest.get(block.first, issued))
    return newest


def _made_up(tables: str, known: History, now: datetime) -> tuple[MadeUp, ...]:
    if not known.blocks:
        return ()
    limit = known.end + FORGED_MARGIN
    try:
        rows = query(tables, _REFUSED, now).records()
    except TableNotFoundError:
        return ()
    found = {(pid, row["principal"]): row["decision_id"] for row in rows for pid in row["sample_pids"] or ()}
    return tuple(MadeUp(pid, who, decision) for (pid, who), decision in sorted(found.items()) if pid >= limit)
