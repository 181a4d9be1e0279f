"""A history: the records of a few partitions, how they are cut into batches, and what goes wrong meanwhile."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random

from tests.fuzz.rules_oracle import Event, Quota, Rules

NOW_MS = 1_790_000_000_000
MAX_AHEAD_MS = 300_000


QuotaEntry = float | tuple[float, float]
"""A rate, or a rate and a burst."""


class Chance(Random):
    """Chance with a seed: the same for ever, so that what it made can be made again."""


@dataclass(frozen=True)
class Record:
    """An event in a partition; `raw` stands for a record that is none.

    `ahead_ms` is how much later than the event's time the log stamped it; below 0 the event is ahead of its record.
    `joined`: its event stands in the record before it, if that is of the same principal and broker.
    """

    partition: int
    event: Event | None
    ahead_ms: int = 5
    raw: bytes | None = None
    style: int = 0
    joined: bool = False

    @property
    def record_ms(self) -> int:
        return (self.event.at_ms if self.event else NOW_MS) + self.ahead_ms

    @property
    def shared(self) -> dict[str, object]:
        """What events of a record may share, as written."""
        assert self.event is not None
        event, fields = self.event, dict[str, object]()
        if self.style & 2:
            fields |= {"client_id": None, "address": None, "learning": False}
        named = (("client_id", event.client), ("address", event.address))
        fields |= {name: text for name, text in named if text}
        if event.learning:
            fields["learning"] = True
        return fields


@dataclass(frozen=True)
class Written:
    """A record as it is written: of one event, or of several that were joined."""

    records: tuple[Record, ...]

    @property
    def partition(self) -> int:
        return self.records[0].partition

    @property
    def record_ms(self) -> int:
        return max(record.record_ms for record in self.records)

    @property
    def taken(self) -> list[Event]:
        """The events that count: none is further ahead of its record than clocks may differ."""
        events = [record.event for record in self.records if record.event is not None]
        return [event for event in events if event.at_ms <= self.record_ms + MAX_AHEAD_MS]

    @property
    def is_quarantined(self) -> bool:
        return len(self.taken) < len(self.records)

    def value(self) -> bytes | None:
        first = self.records[0]
        if first.event is None:
            return first.raw
        event, style = first.event, first.style
        fields: dict[str, object] = {"timestamp_ms": event.at_ms, "principal": event.principal}
        fields |= {"broker_id": event.broker} | self._columns()
        if style & 1:
            fields |= {
                "topic": "orders",
                "partitions": [3],
                "producer_id": 7,
                "version": 2,
                "note": {"deep": [1, {"é": None}]},
                "bytes": 17.5,
            }
            fields = dict(reversed(fields.items()))
        return json.dumps(fields, ensure_ascii=not style & 4).encode()

    def _columns(self) -> dict[str, object]:
        events = [record.event for record in self.records if record.event is not None]
        groups = [record.shared for record in self.records]
        distinct = [each for number, each in enumerate(groups) if each not in groups[:number]]
        columns: dict[str, object] = {
            "after_ms": [event.at_ms - events[0].at_ms for event in events],
            "producer_ids": [event.pid for event in events],
        }
        if distinct != [{}]:
            columns["groups"] = distinct
        if len(distinct) > 1:
            columns["group"] = [distinct.index(each) for each in groups]
        return columns


def written(records: Iterable[Record]) -> Iterator[Written]:
    """Yield the records of one partition as they are written."""
    pending: list[Record] = []
    for record in records:
        if pending and not (record.joined and _belong_together(pending[0].event, record.event)):
            yield Written(tuple(pending))
            pending = []
        pending.append(record)
    if pending:
        yield Written(tuple(pending))


def _belong_together(first: Event | None, other: Event | None) -> bool:
    if first is None or other is None:
        return False
    return (first.principal, first.broker) == (other.principal, other.broker)


@dataclass(frozen=True)
class Batch:
    """Records, the quotas in force, and how Spark runs it.

    Attributes:
        records: In offset order per partition.
        quotas: By bare name, "" for the default; None as in the batch before.
        clock_ms: How much processing time passes before it.
        plan: Seed of the order in which partitions are read and pre-aggregates arrive; 0 for offset order.
        trouble: "", "blocks", "crash before the tables", "crash after the tables".
        loses: Principal whose ledger can't be read when a new run begins with this batch; empty for none.
        next_pid: The lowest PID that was not handed out yet, as the plugins have reported it; None if unknown.
    """

    records: tuple[Record, ...]
    quotas: dict[str, QuotaEntry] | None = None
    clock_ms: int = 1000
    plan: int = 0
    trouble: str = ""
    loses: str = ""
    next_pid: int | None = None

    @property
    def began_ms(self) -> int:
        """The driver's clock when it begins: its newest record is there."""
        return max(record.record_ms for record in self.records)

    def partitions(self) -> dict[int, list[Written]]:
        found: dict[int, list[Record]] = {}
        for record in self.records:
            found.setdefault(record.partition, []).append(record)
        return {partition: list(written(found[partition])) for partition in sorted(found)}

    def events(self) -> list[Event]:
        """The events that count, in the order in which they are applied."""
        return [event for each in self.partitions().values() for record in each for event in record.taken]

    def homes(self) -> dict[str, dict[int, int]]:
        """The newest event of each principal in each partition, in milliseconds."""
        newest: dict[str, dict[int, int]] = {}
        for partition, records in self.partitions().items():
            for event in (event for record in records for event in record.taken if event.pid >= 0):
                times = newest.setdefault(event.principal, {})
                times[partition] = max(event.at_ms, times.get(partition, 0))
        return newest


@dataclass(frozen=True)
class History:
    rules: Rules
    batches: tuple[Batch, ...]
    buckets: int = 24
    false_positive_rate: float = 1e-9
    salt: int = 11
    is_made_up: bool = False  # a flood of PIDs with a pattern: only who was admitted is checked
    max_uncharged_bytes: int = 0  # 0 for the default, which no history reaches; else only bounds are checked

    def events(self) -> int:
        return sum(len(batch.records) for batch in self.batches)


def fraction(number: float | None) -> Fraction | None:
    return None if number is None else Fraction(str(number))


def rate_and_burst(entry: QuotaEntry) -> tuple[float, float | None]:
    return entry if isinstance(entry, tuple) else (entry, None)


def quota_of(quotas: dict[str, QuotaEntry], principal: str) -> Quota | None:
    """The quota in force: the user's own, else the default; some are never enforced."""
    if principal in ("unknown", "User:ANONYMOUS"):
        return None
    entry = quotas.get(principal.split(":", 1)[1], quotas.get(""))
    if entry is None:
        return None
    rate, burst = rate_and_burst(entry)
    return Quota(Fraction(str(rate)), fraction(burst))


@dataclass
class Counts:
    histories: int = 0
    events: int = 0
    decisions: int = 0
    rows: int = 0
    false_positives: int = 0
    mismatches: list[int] = field(default_factory=list)
