"""Loads: records in a topic, as the brokers' plugin writes them."""

import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from broker.local.local_broker import LocalBroker
from wire.event_record import MAX_EVENTS, EventGroup, EventRecord

TOPIC = "bench-events"
PARTITIONS = 4
ZIPF = 1.1
PIDS_EACH = 20
HOUR_MS = 3_600_000
MAX_ROUND = 100_000
"""Maximum number of events in a round, which a plugin groups into records."""
FLOOD = -1
"""Number that stands for the owner of a flood's PIDs."""
BROKER, ORDERS, ORDERS_PARTITIONS, ADDRESS = 1, "orders", 12, "10.0.0.5"
"""Broker, topic, partitions and address of all events."""
Ints = npt.NDArray[np.int64]


class BenchError(Exception):
    """Raised when a measurement is meaningless. The message says what to change."""


@dataclass(frozen=True)
class Load:
    """Events of a benchmark. Principals' shares follow Zipf's law, and each principal has a few long-lived PIDs.

    Attributes:
        events: Number of events.
        principals: Number of principals.
        flood_pids: Number of events of one more principal, each with a new PID.
        per_record: Average number of events per record. With 1, each event has its own record. Otherwise, rounds are
            long enough for this average, as far as `MAX_ROUND` allows.
    """

    events: int
    principals: int
    flood_pids: int = 0
    per_record: int = 1

    @property
    def topic(self) -> str:
        """Topic of these events."""
        return f"{TOPIC}-{self.events}-{self.principals}-{self.flood_pids}-{self.per_record}"


@dataclass(frozen=True)
class Content:
    """The content of a topic.

    Attributes:
        events_before: For each partition, the number of events before each offset, up to the end offset.
        value_bytes: Size of all records' values in bytes.
    """

    events_before: tuple[Ints, ...]
    value_bytes: int

    def events_to(self, offsets: Mapping[str, int]) -> int:
        """Return the number of events before these offsets, given by partition."""
        return sum(int(self.events_before[int(partition)][offset]) for partition, offset in offsets.items())

    @property
    def events_per_record(self) -> float:
        """Mean number of events per record."""
        return self._events / sum(len(each) - 1 for each in self.events_before)

    @property
    def bytes_per_event(self) -> float:
        """Mean uncompressed size of an event in the records' values, in bytes."""
        return self.value_bytes / self._events

    @property
    def _events(self) -> int:
        return sum(int(each[-1]) for each in self.events_before)


@contextmanager
def loaded_broker(folder: Path, load: Load) -> Iterator[tuple[LocalBroker, Content]]:
    """Run a broker that has the events of a load."""
    with LocalBroker(folder / "kafka") as broker:
        yield broker, fill(broker, load)


def fill(broker: LocalBroker, load: Load) -> Content:
    """Write a load's events, and return the content of the topic."""
    admin = AdminClient({**broker.admin_config()})
    admin.create_topics([NewTopic(load.topic, PARTITIONS, 1)])[load.topic].result()
    settings = {"linger.ms": 50, "queue.buffering.max.messages": 2_000_000, "compression.type": "lz4"}
    # One request at a time keeps the order of records, so an offset tells how many events are before it.
    producer = Producer(broker.admin_config() | settings | {"max.in.flight": 1})
    sizes: list[list[int]] = [[0] for _ in range(PARTITIONS)]
    value_bytes = 0
    for number, (name, value, size) in enumerate(records_of(load)):
        # Choose the partition that librdkafka would choose.
        partition = zlib.crc32(name.encode()) % PARTITIONS
        producer.produce(load.topic, value, name, partition)
        sizes[partition].append(size)
        value_bytes += len(value)
        if number % 10_000 == 0:
            producer.poll(0)
    if producer.flush(300):
        msg = f"not all {load.events:,} events reached the broker within 300 s: is the disk full?"
        raise BenchError(msg)
    return Content(tuple(np.cumsum(each) for each in sizes), value_bytes)


def records_of(load: Load) -> Iterator[tuple[str, bytes, int]]:
    """Yield a load's records: principal, value and number of events."""
    random = np.random.default_rng(1)
    owners = random.choice(load.principals, load.events, p=zipf_shares(load.principals))
    pids = owners * PIDS_EACH + random.integers(0, PIDS_EACH, load.events)
    if load.flood_pids:
        flood = random.choice(load.events, load.flood_pids, replace=False)
        owners[flood] = FLOOD
        pids[flood] = 1_000_000_000 + np.arange(load.flood_pids)
    times = time.time_ns() // 1_000_000 - HOUR_MS + np.arange(load.events) * 600_000 // load.events
    size = round_size(owners, load.per_record)
    for begin in range(0, load.events, size):
        part = slice(begin, begin + size)
        yield from round_records(owners[part], pids[part], times[part], is_packed=load.per_record > 1)


def zipf_shares(principals: int) -> npt.NDArray[np.float64]:
    """Return each principal's share of the events."""
    weights = 1 / np.arange(1, principals + 1) ** ZIPF
    shares: npt.NDArray[np.float64] = weights / weights.sum()
    return shares


def round_size(owners: Ints, per_record: int) -> int:
    """Return the number of events in a round in which each owner has `per_record` events on average."""
    size = MAX_ROUND if per_record == 1 else per_record
    while size < min(MAX_ROUND, len(owners)) and size / len(np.unique(owners[:size])) < per_record:
        size = min(size * 5 // 4 + 1, MAX_ROUND)
    return size


def round_records(owners: Ints, pids: Ints, times: Ints, *, is_packed: bool = True) -> Iterator[tuple[str, bytes, int]]:
    """Yield the records that a plugin writes for a round: principal, value and number of events.

    Without `is_packed`, each event has its own record.
    """
    order = np.argsort(owners, kind="stable") if is_packed else np.arange(len(owners))
    cuts = np.flatnonzero(np.diff(owners[order])) + 1 if is_packed else order[1:]
    for group in sorted(filter(len, np.split(order, cuts)), key=lambda each: int(each[0])):
        owner = int(owners[group[0]])
        name = "User:flood" if owner == FLOOD else f"User:app-{owner}"
        for value, size in values_of(name, f"c{owner % 7}", pids[group].tolist(), times[group].tolist()):
            yield name, value, size


def values_of(principal: str, client_id: str, pids: list[int], times: list[int]) -> Iterator[tuple[bytes, int]]:
    """Yield each value of a principal's records, and its number of events."""
    groups = [EventGroup(ORDERS, client_id, address=ADDRESS)]
    for begin in range(0, len(pids), MAX_EVENTS):
        part, at_ms = pids[begin : begin + MAX_EVENTS], times[begin : begin + MAX_EVENTS]
        after_ms = [each - at_ms[0] for each in at_ms]
        partitions = [pid % ORDERS_PARTITIONS for pid in part]
        record = EventRecord(at_ms[0], principal, after_ms, part, BROKER, groups, partitions=partitions)
        yield msgspec.json.encode(record), len(part)
