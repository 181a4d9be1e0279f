"""The command `pid-quota blocks`."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Annotated, Any

import typer

from jobs.errors import JobError
from jobs.options import JsonOption, TablesOption
from jobs.output.json_out import print_json
from jobs.output.terminal import output, printable
from jobs.output.text_tables import TextTable
from lifecycle.block_history import BrokerBlocks, History, holder
from lifecycle.producer_id_blocks import Block, Fate, Violation, fate, find_violations
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
_HOURS_A_YEAR = 24 * 365.25
_LOAD = "load the plugin into the brokers (docs/plugin.md#install), and run the stream"
_COLUMNS = ("broker", "blocks", "pids", "pids/h", "restarts", "lost", "last block")


def blocks(
    tables: TablesOption,
    pid: Annotated[
        int | None, typer.Option(min=0, help="Show which broker issued this producer id, when and to whom.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Audit the blocks of producer ids that brokers received (KIP-730); exit code 1 if a guarantee is broken."""
    now = datetime.now(timezone.utc)
    history = read_history(tables, now)
    if pid is not None:
        asker = None
        with suppress(TableNotFoundError):
            asker = next(iter(query(tables, _ASKER.format(pid=pid), now).records()), None)
        _show_issuer(history, pid, asker, as_json)
        return
    broken = find_violations(history.blocks)
    if as_json:
        print_json(_as_dict(history, broken), indent=2)
    else:
        if history.blocks:
            output().print(TextTable(_COLUMNS, map(_cells, history.brokers())))
        for line in _lines(history, broken):
            output().print(printable(line))
    if broken:
        raise typer.Exit(1)


def _show_issuer(history: History, pid: int, asker: dict[str, Any] | None, as_json: bool) -> None:
    block = holder(history.blocks, pid)
    if block is None:
        raise JobError(_unknown(history, pid))
    found = fate(pid, block, history.blocks, history.newest_issued) if asker is None else Fate.HANDED_OUT
    if as_json:
        print_json({"producer_id": pid, "fate": found.value, **_block_dict(block), "handed_out": asker}, indent=2)
        return
    text = (
        f"producer id {pid} {_FATES[found].format(broker=block.broker_id)}: block {block.first} to {block.end - 1}, "
        f"allocated {_time(block.allocated_at_ms)} (epoch {block.broker_epoch})"
    )
    output().print(text, markup=False)
    if asker is not None:
        whom = f"{asker['principal']}, client {asker['client_id']}, from {asker['client_host']}"
        output().print(printable(f"handed out {asker['answered_at']:%Y-%m-%d %H:%M:%S} UTC to {whom}"))


def _unknown(history: History, pid: int) -> str:
    if not history.blocks:
        return f"no block is known, so the broker that issued {pid} is unknown: {_LOAD}"
    start, end = history.blocks[0].first, history.end
    text = f"no known block holds producer id {pid}; the known blocks go from {start} to {end - 1}"
    if pid < start:
        return f"{text}: it is older than the brokers' metadata logs"
    if pid >= end:
        return f"{text}: a client made it up, or it was allocated after the last row"
    return f"{text}: a client made it up, or no plugin has reported it"


def _cells(broker: BrokerBlocks) -> tuple[object, ...]:
    last = None if broker.last_block_at_ms is None else to_time(broker.last_block_at_ms)
    counts = (broker.broker_id, broker.blocks, broker.producer_ids, f"{broker.pids_per_hour:,.0f}", broker.restarts)
    return (*counts, broker.lost_pids, last)


def _lines(history: History, broken: Sequence[Violation]) -> Iterator[str]:
    if not history.blocks:
        yield f"no block is known yet, so KIP-730 can't be checked: {_LOAD}"
        return
    yield f"next producer id: {history.end} or above; all brokers take {history.pids_per_hour:,.0f} an hour"
    if history.hours_left is not None:
        yield f"at this rate 2^63 is reached in {history.hours_left / _HOURS_A_YEAR:,.0f} years"
    for loss in history.losses():
        about = "" if loss.is_exact else "at most "
        span = f"{loss.block.first} to {loss.block.end - 1}"
        yield f"lost when broker {loss.block.broker_id} restarted: {about}{loss.pids} of block {span}"
    for forged in history.made_up:
        yield f"forged_pid: {forged.producer_id}, which no controller allocated, is used by {forged.principal}"

    if not broken:
        yield "KIP-730 holds: no overlap, start >= last end, epoch not stale"
    for violation in broken:
        block = violation.block
        yield (
            f"ALERT {violation.promise}: broker {block.broker_id} (epoch {block.broker_epoch}) was given {block.first} "
            f"to {block.end - 1} at {_time(block.allocated_at_ms)}, against {violation.other}"
        )


def _as_dict(history: History, broken: Sequence[Violation]) -> dict[str, Any]:
    return {
        "brokers": [_broker_dict(broker) for broker in history.brokers()],
        "seen": bool(history.blocks),
        "next_producer_id": history.end if history.blocks else None,
        "pids_per_hour": history.pids_per_hour,
        "hours_left": history.hours_left,
        "lost_at_restarts": [
            _block_dict(loss.block) | {"pids": loss.pids, "exact": loss.is_exact} for loss in history.losses()
        ],
        "forged_pids": [asdict(forged) for forged in history.made_up],
        "violations": [_block_dict(item.block) | {"promise": item.promise, "other": item.other} for item in broken],
    }


def _broker_dict(broker: BrokerBlocks) -> dict[str, Any]:
    record = asdict(broker)
    last_ms = record.pop("last_block_at_ms")
    return record | {"last_block_at": None if last_ms is None else to_time(last_ms)}


def _block_dict(block: Block) -> dict[str, Any]:
    return {
        "broker_id": block.broker_id,
        "broker_epoch": block.broker_epoch,
        "first_producer_id": block.first,
        "length": block.length,
        "allocated_at": to_time(block.allocated_at_ms),
    }


def _time(at_ms: int) -> str:
    return f"{to_time(at_ms):%Y-%m-%d %H:%M:%S} UTC"
