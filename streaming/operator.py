"""The stateful operator: a thin shell that gives each principal's ledger its events and its quota."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from quota.decision import Decision
from quota.limits import UNLIMITED, Limit
from quota.principals import OVERFLOW_PRINCIPALS
from state.broker_ledgers import BrokerLedgers
from state.errors import LedgerCodecError
from state.events import Deployment, Events, Outcome
from state.ledger import Ledger
from streaming.quotas import OpenQuotas, no_quotas
from streaming.records import Quarantined
from streaming.roster import FORGOTTEN, OVERFLOWED, TRACKED, Roster, code_of, no_roster
from streaming.rows import Rows, pack
from streaming.slots import GroupSlot, Slot
from streaming.tally import QUARANTINE_PREFIX, PackedEvents
from streaming.tasks import keep_modules

STATE_SCHEMA = "ledger BINARY"
NO_BROKER = -1
"""Stands for the broker in scope `cluster`, where nobody asks for it."""

_EXPIRED = b"PQX"
"""Stands before an event time (8 bytes) and the bytes of a ledger that had expired by then."""

_packed_decoder = msgspec.msgpack.Decoder(PackedEvents)
_quarantine_decoder = msgspec.msgpack.Decoder(list[Quarantined])


def operate(
    deployment: Deployment,
    never_enforced: frozenset[str],
    key: tuple[str],
    frames: Iterator[pd.DataFrame],
    state: Any,
    get_roster: Callable[[], Roster] = no_roster,
    get_quotas: OpenQuotas = no_quotas,
) -> Iterator[pd.DataFrame]:
    """Give the events of one principal and batch to its ledger; the function of `applyInPandasWithState`.

    Args:
        deployment: Settings of the rules and of this stream.
        never_enforced: Principals whose quota is never applied.
        key: The principal.
        frames: Its tallies.
        state: Spark's `GroupState` of `STATE_SCHEMA`.
        get_roster: Gives the roster that holds for this batch.
        get_quotas: Gives the quotas that hold for this batch.

    Yields:
        Rows of `streaming.rows.OUTPUT_SCHEMA`.
    """
    keep_modules()
    slot = GroupSlot(state)
    if state.hasTimedOut:
        output = expire(key[0], deployment, slot)
    else:
        packed = [each for frame in frames for each in frame["packed"].tolist()]
        limit = get_quotas().limit(key[0])
        output = apply(deployment, never_enforced, key[0], packed, limit, slot, get_roster)
    if output:
        yield pack(output)


def apply(
    deployment: Deployment,
    never_enforced: frozenset[str],
    principal: str,
    packed: list[bytes],
    limit: Limit,
    slot: Slot,
    get_roster: Callable[[], Roster] = no_roster,
) -> Rows:
    """Give the events of one principal and batch to its ledger, and return the rows that this makes.

    Args:
        deployment: As of `operate`.
        never_enforced: As of `operate`.
        principal: Whose events they are, or the key of quarantined records.
        packed: Its tallies.
        limit: The quota in force.
        slot: Where its ledger is stored.
        get_roster: As of `operate`.
    """
    if principal.startswith(QUARANTINE_PREFIX):
        records = [record for each in packed for record in _quarantine_decoder.decode(each)]
        return [("quarantined_events", quarantined_row(record)) for record in records]
    content = slot.get()
    stored = None if content is None else _marked(content)[1]
    events = unpack(packed)
    ledger, output = _open_ledger(principal, deployment, stored, events)
    newest_ms = max(events.timestamps_ms, default=0)
    if principal in OVERFLOW_PRINCIPALS:
        output.append((OVERFLOWED, newest_ms))
    elif stored is None:
        output.append((TRACKED, code_of(principal)))
        _learn_after_overflow(ledger, deployment, events, get_roster().overflowed_ms)
    outcome = ledger.process(events, UNLIMITED if principal in never_enforced else limit)
    reached.note(newest_ms)
    if outcome.changed:
        _store(ledger, deployment, slot)
    return output + _rows(outcome)


class EventTime:
    """The newest event time this process has met. Spark shows it the data of a batch before its timeouts."""

    def __init__(self) -> None:
        self.newest_ms = 0

    def note(self, timestamp_ms: int) -> None:
        """Take note of an event's time, in ms since the epoch."""
        self.newest_ms = max(self.newest_ms, timestamp_ms)


reached = EventTime()


def _store(ledger: Ledger | BrokerLedgers, deployment: Deployment, slot: Slot) -> None:
    """Write the ledger, and ask to be called when it may have expired, should nothing change it until then."""
    left_ms = ledger.expires_ms() - reached.newest_ms
    slot.put(ledger.to_bytes(), max(left_ms, deployment.config.quantum_ms))


def expire(principal: str, deployment: Deployment, slot: Slot) -> Rows:
    """Remove the ledger of a principal that has been silent for so long, if event time is as far as the clock.

    A process that has met no later event yet (after a restart, while catching up) is asked again. So what a process has
    met must not show in the output, which a repeated batch has to give again: it is noted in the state first, and acted
    on in a later batch.
    """
    expired_ms, stored = _marked(slot.get() or b"")
    try:
        ledger = _ledger(principal, deployment, stored)
    except LedgerCodecError as error:
        slot.remove()
        return [_lost(principal, stored, error, reached.newest_ms), *_forgotten(principal)]
    outcome = None if expired_ms is None else ledger.expire(expired_ms)
    if outcome is None:
        if reached.newest_ms < ledger.expires_ms():
            _store(ledger, deployment, slot)
        else:
            slot.put(_EXPIRED + reached.newest_ms.to_bytes(8, "big") + stored, 1)
        return []
    slot.remove()
    return [*_rows(outcome), *_forgotten(principal)]


def _marked(content: bytes) -> tuple[int | None, bytes]:
    """Return the event time at which a ledger was found to have expired, if it was, and the ledger's bytes."""
    if not content.startswith(_EXPIRED):
        return None, content
    begin = len(_EXPIRED)
    return int.from_bytes(content[begin : begin + 8], "big"), content[begin + 8 :]


def _forgotten(principal: str) -> Rows:
    return [] if principal in OVERFLOW_PRINCIPALS else [(FORGOTTEN, code_of(principal))]


def _learn_after_overflow(
    ledger: Ledger | BrokerLedgers, deployment: Deployment, events: Events, overflowed_ms: int
) -> None:
    """Charge nothing at first if the principal may have been in an overflow entry: its PIDs were not remembered."""
    first_ms, window_ms = events.timestamps_ms[0], deployment.config.window_ms
    if overflowed_ms and first_ms < overflowed_ms + window_ms:
        ledger.learn_again(first_ms + window_ms)


def unpack(packed: Iterable[bytes]) -> Events:
    """Join the tallies of a principal into its events in partition and offset order."""
    tallies = [_packed_decoder.decode(each) for each in packed]
    if len(tallies) == 1:
        return _in_order(tallies[0])
    names: list[str] = []
    columns: list[list[np.ndarray]] = []
    for tally in tallies:
        read = [
            np.frombuffer(column, np.int64)
            for column in (tally.offsets, tally.pids, tally.timestamps_ms, tally.clients, tally.kinds)
        ]
        brokers = np.frombuffer(tally.brokers, np.int64) if tally.brokers else np.full(len(read[0]), NO_BROKER)
        columns.append([np.full(len(read[0]), tally.partition), *read[:3], read[3] + len(names), read[4], brokers])
        names += tally.client_ids
    partition, offset, pid, timestamp, client, kind, broker = (
        np.concatenate(parts) for parts in zip(*columns, strict=True)
    )
    order = np.lexsort((offset, partition))
    return Events(
        pids=pid[order].tolist(),
        timestamps_ms=timestamp[order].tolist(),
        client_ids=[names[code] for code in client[order].tolist()],
        kinds=kind[order].tolist(),
        broker_ids=broker[order].tolist(),
    )


def _in_order(tally: PackedEvents) -> Events:
    """Return the events of one tally, which is in offset order: most principals write to one partition."""
    pids, timestamps_ms, clients, kinds = (
        memoryview(column).cast("q").tolist()
        for column in (tally.pids, tally.timestamps_ms, tally.clients, tally.kinds)
    )
    broker_ids = memoryview(tally.brokers).cast("q").tolist() if tally.brokers else [NO_BROKER] * len(pids)
    return Events(pids, timestamps_ms, [tally.client_ids[code] for code in clients], kinds, broker_ids)


def _open_ledger(
    principal: str, deployment: Deployment, stored: bytes | None, events: Events
) -> tuple[Ledger | BrokerLedgers, Rows]:
    """Open the stored ledger; one that can't be read is quarantined and replaced by a learning one."""
    try:
        return _ledger(principal, deployment, stored), []
    except LedgerCodecError as error:
        ledger = _ledger(principal, deployment, None)
        ledger.learn_again(events.timestamps_ms[0] + deployment.config.window_ms)
        return ledger, [_lost(principal, stored or b"", error, events.timestamps_ms[0])]


def _ledger(principal: str, deployment: Deployment, stored: bytes | None) -> Ledger | BrokerLedgers:
    return (BrokerLedgers if deployment.scope == "broker" else Ledger)(principal, deployment, stored)


def _lost(principal: str, stored: bytes, error: LedgerCodecError, now_ms: int) -> tuple[str, dict[str, Any]]:
    lost = Quarantined(stored, f"ledger of {principal} lost: {error}", "", -1, -1, now_ms)
    return "quarantined_events", quarantined_row(lost)


def _rows(outcome: Outcome) -> Rows:
    decisions: Rows = [("throttle_decisions", decision_row(decision)) for decision in outcome.decisions]
    return decisions + [("producer_id_metrics", row) for row in outcome.metrics]


def decision_row(decision: Decision) -> dict[str, Any]:
    """Return a decision as a row of `throttle_decisions`, times still in milliseconds."""
    row = asdict(decision)
    evidence = row.pop("evidence")
    return _without_unit(row) | evidence


def quarantined_row(record: Quarantined) -> dict[str, Any]:
    """Return a bad record as a row of `quarantined_events`, its time still in milliseconds."""
    row = record._asdict()
    return row | {"record_timestamp": row.pop("record_ms")}


def _without_unit(row: dict[str, Any]) -> dict[str, Any]:
    times = {"decided_at_ms", "throttled_until_ms", "quota_updated_at_ms"}
    return {name.removesuffix("_ms") if name in times else name: value for name, value in row.items()}
