"""The pre-aggregation and operator of one task, with batch metadata from the test; the options of a stream."""

from dataclasses import dataclass, field, replace
from typing import Any

from quota.limits import Quotas
from state.events import Deployment
from streaming.batch.event_times import EventTimes
from streaming.batch.tasks import TaskBatch
from streaming.batch.tracked_principals import TrackedPrincipals
from streaming.decode.checks import Contract
from streaming.decode.preaggregate import PreAggregate
from streaming.operator.ledger_operator import Operator
from streaming.pipeline import StreamOptions


@dataclass(frozen=True)
class KnownBatch(TaskBatch):
    checkpoint: str = ""
    in_force: Quotas = field(default_factory=Quotas)
    tracked: TrackedPrincipals = field(default_factory=TrackedPrincipals)
    times: EventTimes = field(default_factory=EventTimes)
    began_ms: int | None = None
    next_id: int | None = None

    def begin_ms(self) -> int | None:
        return self.began_ms

    def partitions(self) -> int:
        return 1

    def quotas(self) -> Quotas:
        return self.in_force

    def tracked_principals(self) -> TrackedPrincipals:
        return self.tracked

    def event_times(self) -> EventTimes:
        return self.times

    def next_producer_id(self) -> int | None:
        return self.next_id


BATCH = KnownBatch()


def stream_options(checkpoint: str = "checkpoint", **changes: Any) -> StreamOptions:
    return replace(StreamOptions(topic="events", kafka_options={}, tables="tables", checkpoint=checkpoint), **changes)


def pre_aggregate_of(batch: TaskBatch = BATCH) -> PreAggregate:
    return PreAggregate(Contract(), "produce-events", 50_000, batch)


def operator_of(deployment: Deployment, batch: TaskBatch = BATCH) -> Operator:
    return Operator(deployment, batch)
