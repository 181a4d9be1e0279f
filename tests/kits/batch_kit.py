"""The pre-aggregation and operator of one task, what passes between them, and batch metadata from the test."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from quota.limits import Quotas
from state.events import Deployment, Events
from streaming.batch.context import BatchContext, Carried, begin_batch, end_batch
from streaming.batch.tasks import TaskBatch
from streaming.batch.tracked_principals import TrackedPrincipals
from streaming.decode.preaggregate import PreAggregate
from streaming.operator.group_events import arrived
from streaming.operator.ledger_operator import Operator
from streaming.pipeline import StreamOptions
from wire.packed_events import PackedEvents, unpack


@dataclass(frozen=True)
class KnownBatch(TaskBatch):
    checkpoint: str = ""
    in_force: Quotas = field(default_factory=Quotas)
    tracked: TrackedPrincipals = field(default_factory=TrackedPrincipals)
    times: dict[int, int] = field(default_factory=dict)
    began_ms: int | None = None
    next_id: int | None = None

    partitions: int = 1

    @cached_property
    def known(self) -> BatchContext:
        ends = {"produce-events": dict.fromkeys(range(self.partitions), 0)}
        before = Carried(self.tracked, self.times)
        return BatchContext(self.began_ms, {}, ends, self.in_force, self.next_id, before)

    def context(self) -> BatchContext:
        return self.known


BATCH, NO_QUOTAS = KnownBatch(), Quotas()
NO_REPORTS: Mapping[str, Sequence[Any]] = {}


def begin(
    checkpoint: Path, batch_id: int, quotas: Quotas = NO_QUOTAS, began_ms: int = 1_790_000_000_000
) -> BatchContext:
    """Begin a batch as Spark and the driver do."""
    (checkpoint / "offsets").mkdir(exist_ok=True)
    offsets = f'v1\n{{"batchTimestampMs":{began_ms}}}\n{{"produce-events":{{"0":{batch_id + 5},"1":7}}}}'
    (checkpoint / "offsets" / str(batch_id)).write_text(offsets)
    return begin_batch(str(checkpoint), batch_id, lambda: quotas)


def run_batch(
    checkpoint: Path, batch_id: int, reported: Mapping[str, Sequence[Any]] = NO_REPORTS, quotas: Quotas = NO_QUOTAS
) -> None:
    """Run a batch whose operator reports something."""
    end_batch(str(checkpoint), batch_id, begin(checkpoint, batch_id, quotas), reported)


def stream_options(checkpoint: str = "checkpoint", **changes: Any) -> StreamOptions:
    return replace(StreamOptions(topic="events", kafka_options={}, tables="tables", checkpoint=checkpoint), **changes)


def pre_aggregate_of(batch: TaskBatch = BATCH) -> PreAggregate:
    return PreAggregate("produce-events", 50_000, batch)


def operator_of(deployment: Deployment, batch: TaskBatch = BATCH) -> Operator:
    return Operator(deployment, batch)


def unpacked(packed: bytes) -> PackedEvents:
    found = unpack(packed)
    assert isinstance(found, PackedEvents)
    return found


def frame_of(rows: Iterable[tuple[str, bytes]]) -> pd.DataFrame:
    """Return pre-aggregates as Spark gives them to the operator."""
    return pd.DataFrame(list(rows), columns=["principal", "packed"])


def in_order(parts: Iterable[PackedEvents]) -> Events:
    """Return the events of one principal, without the hashes of their PIDs."""
    found = arrived([("", part) for part in parts], 0)[""].events
    return msgspec.structs.replace(found, hashes=[])
