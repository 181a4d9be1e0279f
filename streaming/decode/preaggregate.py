"""Pre-aggregates events before the shuffle: one row per principal, partition and block of records.

The operator's time then mostly depends on the number of principals in a batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from streaming.batch.tasks import TaskBatch, freeze_gc
from streaming.decode.overflow import Gate
from streaming.decode.packing import pack_by_principal
from streaming.decode.quarantine import Sampler
from streaming.decode.records import blocks, decode
from wire.packed_events import PackedQuarantine, Quarantined, pack

BLOCK_BYTES = 16 * 1024 * 1024
QUARANTINE_KEY = "quarantine/"
"""Prefix of the keys that spread quarantined records over the tasks."""


@dataclass(frozen=True)
class PreAggregate:
    """The function of `mapInArrow`: decodes and pre-aggregates the Kafka records of one task.

    Attributes:
        max_principals: See `streaming.decode.overflow`.
        max_tasks: Maximum number of tasks that read the topic; None for one per partition.
    """

    topic: str
    max_principals: int
    batch: TaskBatch
    max_tasks: int | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows of `PRE_AGGREGATE_SCHEMA`. `batches` has the columns that `decode` reads, except the topic."""
        freeze_gc()
        context, sampler = self.batch.context(), Sampler()
        gate = Gate.open(context, self.max_principals, self.max_tasks)
        for each in blocks(batches, BLOCK_BYTES):
            # Spark need not send the topic to Python with each record.
            block = each.append_column("topic", pa.repeat(self.topic, len(each)))
            decoded = decode(block, context.begin_ms)
            rows = list(pack_by_principal(decoded.events))
            beyond = gate.keys(list(dict.fromkeys(principal for principal, _ in rows)))
            yield from _batch(
                [(beyond.get(principal, principal), packed) for principal, packed in rows],
                sampler.sample(decoded.quarantined),
            )
        yield from _batch([], sampler.left_out())


def _batch(rows: list[tuple[str, bytes]], quarantined: list[Quarantined]) -> Iterator[pa.RecordBatch]:
    if quarantined:
        # Each block has its own key, so bad input is spread over the tasks.
        first = quarantined[0]
        key = f"{QUARANTINE_KEY}{first.topic}/{first.partition}/{first.offset}"
        rows.append((key, pack(PackedQuarantine(quarantined))))
    if rows:
        principals, packed = zip(*rows, strict=True)
        yield pa.record_batch(
            [pa.array(principals, pa.string()), pa.array(packed, pa.binary())], ["principal", "packed"]
        )
