"""A history: the records of a few partitions, how they are cut into batches, and what goes wrong meanwhile."""

import json
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random

from tests.fuzz.rules_oracle import Event, Rules

NOW_MS = 1_790_000_000_000


class Chance(Random):
    """Chance with a seed: the same for ever, so that what it made can be made again."""


@dataclass(frozen=True)
class Record:
    """An event in a partition; `raw` stands for a record that is none.

    `ahead_ms` is how much later than the event's time the log stamped it.
    """

    partition: int
    event: Event | None
    ahead_ms: int = 5
    raw: bytes | None = None
    style: int = 0

    @property
    def record_ms(self) -> int:
        return (self.event.at_ms if self.event else NOW_MS) + self.ahead_ms

    def value(self) -> bytes | None:
        if self.event is None:
            return self.raw
        event, style = self.event, self.style
        fields: dict[str, object] = {
            "timestamp_ms": event.at_ms,
            "principal": event.principal,
            "producer_id": event.pid,
            "broker_id": event.broker,
        }
        if style & 1:
            fields |= {"topic": "orders", "partition": 3, "note": {"deep": [1, {"é": None}]}, "bytes": 17.5}
            fields = dict(reversed(fields.items()))
        if style & 2:
            fields |= {"client_id": None, "address": None, "correction": None, "learning": False}
        named = (("client_id", event.client), ("address", event.address))
        fields |= {name: text for name, text in named if text}
        if event.kind:
            fields[event.kind] = True
        if event.asked_ms is not None:
            fields["asked_at_ms"] = event.asked_ms
        return json.dumps(fields, ensure_ascii=not style & 4).encode()


@dataclass(frozen=True)
class Batch:
    """Records, the quotas in force, and how Spark runs it.

    Attributes:
        records: In offset order per partition.
        quotas: By bare name, "" for the default; None as in the batch before.
        clock_ms: How much processing time passes before it.
        plan: Seed of who reads what, and in which order pre_aggregates arrive; 0 for worker 0 and offset order.
        trouble: "", "lost", "speculative", "blocks", "restart", "crash before the tables", "crash after the tables".
    """

    records: tuple[Record, ...]
    quotas: dict[str, float] | None = None
    clock_ms: int = 1000
    plan: int = 0
    trouble: str = ""


@dataclass(frozen=True)
class History:
    rules: Rules
    batches: tuple[Batch, ...]
    buckets: int = 24
    false_positive_rate: float = 1e-9
    workers: int = 2
    salt: int = 11
    is_made_up: bool = False  # a flood of PIDs with a pattern: only who was admitted is checked
    max_uncharged_bytes: int = 0  # 0 for the default, which no history reaches; else only bounds are checked

    def events(self) -> int:
        return sum(len(batch.records) for batch in self.batches)


def fraction(rate: float | None) -> Fraction | None:
    return None if rate is None else Fraction(str(rate))


def quota_of(quotas: dict[str, float], principal: str) -> Fraction | None:
    """The quota in force: the user's own, else the default; some are never enforced."""
    if principal in ("unknown", "User:ANONYMOUS"):
        return None
    name = principal.split(":", 1)[1]
    return fraction(quotas.get(name, quotas.get("")))


@dataclass
class Counts:
    histories: int = 0
    events: int = 0
    decisions: int = 0
    rows: int = 0
    false_positives: int = 0
    mismatches: list[int] = field(default_factory=list)
