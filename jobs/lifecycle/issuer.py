"""`pid-quota why PID`: which broker issued a producer id, when and to whom (KIP-730)."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from jobs.errors import JobError
from jobs.output.json_out import print_json
from jobs.output.terminal import output, printable
from lifecycle.producer_id_blocks import Fate, History
from tables.errors import TableNotFoundError
from tables.query.pid_blocks import read_history
from tables.query.sql_query import query
from tables.times import to_time

_ASKER = """
SELECT answered_at, broker_id, principal, client_id, client_host
FROM classified_inits
WHERE result_producer_id = {pid} AND is_new_pid
ORDER BY answered_at
LIMIT 1
"""
_FATES = {
    Fate.HANDED_OUT: "was issued by broker {broker}",
    Fate.LOST: "was never handed out: broker {broker} lost it when it restarted",
    Fate.NOT_YET: "is in a block of broker {broker}; the tables have no request that got it yet",
    Fate.NOT_KNOWN: "was given to broker {broker}; no plugin saw whether it was handed out",
}


def show_issuer(tables: str, pid: int, now: datetime, *, as_json: bool) -> None:
    """Print what the tables know of a producer id.

    Raises:
        JobError: If no known block has the id.
    """
    history = read_history(tables, now)
    block = history.holder(pid)
    if block is None:
        raise JobError(_unknown(history, pid))
    asker = _asker(tables, pid, now)
    found = history.fate(pid, block) if asker is None else Fate.HANDED_OUT
    allocated_at = to_time(block.allocated_at_ms)
    if as_json:
        of_block = {"broker_id": block.broker_id, "broker_epoch": block.broker_epoch, "first_producer_id": block.first}
        dated = {"length": block.length, "allocated_at": allocated_at, "handed_out": asker}
        print_json({"producer_id": pid, "fate": found.value, **of_block, **dated}, indent=2)
        return
    text = (
        f"producer id {pid} {_FATES[found].format(broker=block.broker_id)}: block {block.first} to {block.end - 1}, "
        f"allocated {allocated_at:%Y-%m-%d %H:%M:%S} UTC (epoch {block.broker_epoch})"
    )
    output().print(text, markup=False)
    if asker is not None:
        whom = f"{asker['principal']}, client {asker['client_id']}, from {asker['client_host']}"
        output().print(printable(f"handed out {asker['answered_at']:%Y-%m-%d %H:%M:%S} UTC to {whom}"))


def _asker(tables: str, pid: int, now: datetime) -> Mapping[str, Any] | None:
    with suppress(TableNotFoundError):
        return next(iter(query(tables, _ASKER.format(pid=pid), now).records()), None)
    return None


def _unknown(history: History, pid: int) -> str:
    if not history.blocks:
        return (
            f"no block is known, so the broker that issued {pid} is unknown: load the plugin into the brokers "
            "(docs/plugin.md#install), and run the stream"
        )
    start, end = history.blocks[0].first, history.end
    text = f"no known block holds producer id {pid}; the known blocks go from {start} to {end - 1}"
    if pid < start:
        return f"{text}: it is older than the brokers' metadata logs"
    if pid >= end:
        return f"{text}: a client made it up, or it was allocated after the last row"
    return f"{text}: a client made it up, or no plugin has reported it"
