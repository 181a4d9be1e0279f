"""Runs a history through the real pre-aggregation and the real operator, the way Spark calls them.

Tasks are repeated after a crash, in another order. A group has only its state, and is called again when its timeout
fires.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pandas as pd
import pyarrow as pa

from quota.config import QuotaConfig
from quota.limits import UNLIMITED, Limit, Quotas
from state.events import Deployment
from streaming.batch import context
from streaming.batch.context import MAX_EVENT_TIME
from streaming.decode import preaggregate
from streaming.operator.ledger_group import LedgerGroup, StoredLedger
from streaming.operator.ledger_operator import Operator
from streaming.operator.rows import Rows, unpack_rows
from tests.fuzz.history import Batch, Chance, History, QuotaEntry, Written, rate_and_burst
from tests.kits.batch_kit import KnownBatch, frame_of, operator_of, pre_aggregate_of
from tests.kits.group_state_kit import State

PER_PRINCIPAL = 0
OF_NO_RECORD = (-1, -1)
"""Partition and offset of a quarantined ledger."""
Packed = list[tuple[str, bytes]]


@dataclass
class Stream:
    """The operator's side, for one way to hold ledgers: what is committed of states and of event times."""

    buckets: int
    states: dict[object, tuple[bytes | None, int | None]] = field(default_factory=dict)
    times: dict[int, int] = field(default_factory=dict)
    said: Rows = field(default_factory=list)

    def group_of(self, key: str) -> object:
        return sum(key.encode()) % self.buckets if self.buckets else key


class World:
    """One stream of a history, with a state per principal and in buckets at once: they share the pre-aggregation."""

    def __init__(self, history: History) -> None:
        self.history, self.deployment = history, deployment(history)
        self.streams = [Stream(PER_PRINCIPAL), Stream(history.buckets)]
        self.clock_ms = self.began_ms = 0
        self.quotas = Quotas()
        self.next_offset: dict[int, int] = {}
        self.bad: list[tuple[int, int]] = []
        self.lost: list[str] = []
        """By batch, whose ledger could not be read; empty if none."""

    def run(self) -> None:
        for batch_id, batch in enumerate(self.history.batches):
            self._batch(batch_id, batch)

    # --- one batch

    def _batch(self, batch_id: int, batch: Batch) -> None:
        # A timeout of the next batch has fired by then.
        self.clock_ms += max(2, batch.clock_ms)
        self.began_ms = max(self.began_ms, batch.began_ms)
        if batch.quotas is not None:
            found = {name: limit(name, entry, batch_id) for name, entry in batch.quotas.items()}
            default = found.pop("", UNLIMITED)
            self.quotas = Quotas(found, default)
        self.lost.append(batch.loses if self._damage(batch) else "")
        parts = self._with_offsets(batch)
        pre_aggregated = self._read(batch, parts, batch.plan)
        outcomes = [self._operate(stream, pre_aggregated, batch, batch.plan) for stream in self.streams]
        if batch.trouble.startswith("crash"):
            # Nothing is committed: the next run reads the batch again, and tables that have its rows take none.
            pre_aggregated = self._read(batch, parts, batch.plan + 2)
            again = [self._operate(stream, pre_aggregated, batch, batch.plan + 3) for stream in self.streams]
            if batch.trouble == "crash after the tables":
                outcomes = [(rows, states) for (rows, _), (_, states) in zip(outcomes, again, strict=True)]
            else:
                outcomes = again
        for stream, (rows, states) in zip(self.streams, outcomes, strict=True):
            stream.said += rows
            stream.states = states
            stream.times = context.furthest(stream.times, [body for kind, body in rows if kind == MAX_EVENT_TIME])

    def _damage(self, batch: Batch) -> bool:
        """Damage the ledger of a principal who has events in the batch, if no stream has removed it by now."""
        principal = batch.loses
        if principal not in {event.principal for event in batch.events() if event.pid >= 0}:
            return False
        if any(
            self._is_evicted_at_once(principal, partition, records) for partition, records in batch.partitions().items()
        ):
            return False
        keys = [stream.group_of(principal) for stream in self.streams]
        states = [stream.states.get(key) for stream, key in zip(self.streams, keys, strict=True)]
        damaged = [damaged_in(state[0], principal) if state else None for state in states]
        if None in damaged:
            return False
        for stream, key, stored in zip(self.streams, keys, damaged, strict=True):
            stream.states[key] = (stored, stream.states[key][1])
        self.bad.append(OF_NO_RECORD)
        return True

    def _is_evicted_at_once(self, principal: str, partition: int, records: list[Written]) -> bool:
        """Whether a new ledger has expired by its partition's time: its events are more than a window behind."""
        newest_ms = self.streams[0].times.get(partition, 0)
        times = [event.at_ms for record in records for event in record.taken if event.principal == principal]
        return bool(times) and min(times) + self.deployment.config.window_ms < newest_ms

    def _with_offsets(self, batch: Batch) -> dict[int, list[tuple[int, Written]]]:
        parts: dict[int, list[tuple[int, Written]]] = {}
        for partition, records in batch.partitions().items():
            first = self.next_offset.get(partition, 0)
            self.next_offset[partition] = first + len(records)
            parts[partition] = list(enumerate(records, first))
            self.bad += [(partition, offset) for offset, record in parts[partition] if record.is_quarantined]
        return parts

    # --- the tasks before the shuffle

    def _read(self, batch: Batch, parts: dict[int, list[tuple[int, Written]]], plan: int) -> Packed:
        tasks = sorted(parts)
        if plan:
            Chance(plan).shuffle(tasks)
        return [row for partition in tasks for row in _pre_aggregated(parts[partition], batch.trouble == "blocks")]

    # --- the groups behind it

    def _operate(
        self, stream: Stream, pre_aggregated: Packed, planned: Batch, plan: int
    ) -> tuple[Rows, dict[object, tuple[bytes | None, int | None]]]:
        batch = KnownBatch(in_force=self.quotas, times=stream.times, began_ms=self.began_ms, next_id=planned.next_pid)
        operator = operator_of(self.deployment, batch)
        random, states, said = Chance(plan), dict(stream.states), []
        groups: dict[object, Packed] = {}
        for principal, packed in pre_aggregated:
            groups.setdefault(stream.group_of(principal), []).append((principal, packed))
        keys = list(groups)
        if plan:
            random.shuffle(keys)
        for key in keys:
            said += self._call(operator, key, frames(groups[key], random), states, timed_out=False)
        for key, (_, times_out_ms) in list(states.items()):
            if times_out_ms is not None and times_out_ms < self.clock_ms:
                said += self._call(operator, key, [], states, timed_out=True)
        return said, states

    def _call(
        self, operator: Operator, key: object, parts: list[pd.DataFrame], states: dict[object, Any], *, timed_out: bool
    ) -> Rows:
        stored, times_out_ms = states.get(key, (None, None))
        state = State(stored, timed_out=timed_out, now_ms=self.clock_ms, times_out_ms=times_out_ms)
        said = [row for part in operator((key,), iter(parts), state) for row in unpack_rows(part["packed"])]
        if state.stored is None:
            states.pop(key, None)
        else:
            states[key] = (state.stored, state.times_out_ms)
        return said


def _pre_aggregated(part: list[tuple[int, Written]], in_blocks: bool) -> Packed:
    task = pre_aggregate_of(KnownBatch(began_ms=max(record.record_ms for _, record in part)))
    size = 3 if in_blocks else len(part)
    batches = [records(part[begin : begin + size]) for begin in range(0, len(part), size)]
    before = preaggregate.BLOCK_BYTES
    preaggregate.BLOCK_BYTES = 1 if in_blocks else before
    try:
        return [row for each in task(iter(batches)) for row in zip(*each.to_pydict().values(), strict=True)]
    finally:
        preaggregate.BLOCK_BYTES = before


def limit(name: str, entry: QuotaEntry, batch_id: int) -> Limit:
    rate, burst = rate_and_burst(entry)
    return Limit(rate, "user" if name else "default", batch_id, burst)


def deployment(history: History) -> Deployment:
    rules = history.rules
    config = QuotaConfig(
        window_seconds=rules.window_ms // 1000,
        window_num=rules.window_num,
        layer_count=rules.layer_count,
        false_positive_rate=history.false_positive_rate,
        burst_windows=float(rules.burst_windows),
        min_throttle_seconds=rules.min_throttle_ms / 1000,
        max_throttle_seconds=None if rules.max_throttle_ms is None else rules.max_throttle_ms / 1000,
        late_grace_seconds=rules.late_grace_ms / 1000,
        metrics_interval_seconds=rules.interval_ms / 1000,
        max_uncharged_bytes=history.max_uncharged_bytes or QuotaConfig.max_uncharged_bytes,
    )
    return Deployment(config, history.salt, rules.learn_until_ms, rules.learn_below)


def damaged_in(stored: bytes | None, principal: str) -> bytes | None:
    """Return a group in which a principal's ledger can't be read; None if there is none."""
    state = State(stored, timed_out=False, now_ms=0, times_out_ms=None)
    group = LedgerGroup(state)
    held = group.get(principal)
    if held is None:
        return None
    group.put(principal, StoredLedger(held.forget_ms, held.partition, b"damaged"))
    group.store({}, 1)
    return state.stored


def records(part: list[tuple[int, Written]]) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "value": pa.array([record.value() for _, record in part], pa.binary()),
            "partition": pa.array([record.partition for _, record in part], pa.int32()),
            "offset": pa.array([offset for offset, _ in part], pa.int64()),
            "record_ms": pa.array([record.record_ms for _, record in part], pa.int64()),
        }
    )


def frames(rows: Packed, random: Random) -> list[pd.DataFrame]:
    """What Spark gives a group of: rows in any order, in any number of frames."""
    random.shuffle(rows)
    cut = random.randrange(len(rows) + 1) if random.random() < 0.2 else len(rows)
    return [frame_of(part) for part in (rows[:cut], rows[cut:]) if part]
