"""Pre-aggregates events before the shuffle: one row per principal and task, without repeats.

The operator behind the shuffle costs per principal and batch, not per event.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from streaming.batch.tasks import TaskBatch, freeze_gc
from streaming.decode.checks import Contract
from streaming.decode.forwarded import WorkerMemory
from streaming.decode.overflow import Gate
from streaming.decode.packing import Packing
from streaming.decode.quarantine import Sampler
from streaming.decode.records import blocks, decode
from wire.packed_events import PackedQuarantine, Quarantined, pack

BLOCK_BYTES = 16 * 1024 * 1024
QUARANTINE_KEY = "quarantine/"
"""Prefix of the keys of quarantined records, to spread them over the tasks. The packed row has a tag of its own."""


@dataclass(frozen=True)
class PreAggregate:
    """The function of `mapInArrow`: decodes and pre-aggregates the Kafka records of one task.

    Attributes:
        contract: What events must satisfy.
        packing: Packs those that do.
        topic: Where the records come from.
        max_principals: Most principals tracked one by one; see `streaming.decode.overflow`.
        batch: Metadata of the task's batch.
        memory: What its worker remembers of earlier batches.
    """

    contract: Contract
    packing: Packing
    topic: str
    max_principals: int
    batch: TaskBatch
    memory: WorkerMemory

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pre-aggregate the records of a task.

        Args:
            batches: Columns as in `streaming.decode.records.decode`, but for the topic.

        Yields:
            Rows of `PRE_AGGREGATE_SCHEMA`.
        """
        freeze_gc()
        gate, begin_ms = Gate.of(self.batch, self.max_principals), self.batch.begin_ms()
        sampler = Sampler()
        for each in blocks(batches, BLOCK_BYTES):
            # Added here, the topic costs nothing per record on the way into Python.
            block = each.append_column("topic", pa.repeat(self.topic, len(each)))
            decoded = decode(block, self.contract, begin_ms)
            partitions, offsets = (block[name].to_numpy() for name in ("partition", "offset"))
            memories = self.memory.recall(self.topic, partitions, offsets)
            rows = list(self.packing.rows(decoded.events, memories))
            beyond = gate.keys(list(dict.fromkeys(principal for principal, _ in rows)))
            for principal in beyond:
                # Its PIDs went to an overflow entry: its own ledger will not know them once it is tracked.
                for memory in memories.values():
                    memory.forget(principal)
            yield from _batch(
                [(beyond.get(principal, principal), packed) for principal, packed in rows],
                sampler.sample(decoded.quarantined),
            )
        yield from _batch([], sampler.left_out())


def _batch(rows: list[tuple[str, bytes]], quarantined: list[Quarantined]) -> Iterator[pa.RecordBatch]:
    if quarantined:
        # One key per block spreads bad input over the tasks.
        first = quarantined[0]
        key = f"{QUARANTINE_KEY}{first.topic}/{first.partition}/{first.offset}"
        rows.append((key, pack(PackedQuarantine(quarantined))))
    if rows:
        principals, packed = zip(*rows, strict=True)
        yield pa.record_batch(
            [pa.array(principals, pa.string()), pa.array(packed, pa.binary())], ["principal", "packed"]
        )
