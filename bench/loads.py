"""Records of a whole cluster's plugins, as docs/events.md defines them."""

import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import msgspec
import numpy as np
from confluent_kafka import Producer

from bench.kit import in_background
from broker.local.local_broker import LocalBroker
from wire.event_record import EventGroup, EventRecord
from wire.topics import PRODUCE_EVENTS

ROUND_MS = 50
"""A busy plugin writes once in this time."""
REPEAT_MS = 30_000
"""Default of `pid.quota.repeat.ms`: a plugin writes a PID in use once in this time."""
ROUNDS = REPEAT_MS // ROUND_MS
BROKERS, BROKERS_EACH = 12, 3
"""Brokers of the cluster, and those to which a principal's producers write."""
_SETTINGS = {"linger.ms": 20, "queue.buffering.max.messages": 2_000_000, "compression.type": "lz4"}
_FLOOD_PID, FLOOD_SIZE = 1 << 40, 5_000 * ROUND_MS // 1000
Record = tuple[str, bytes]


@dataclass(frozen=True)
class Cluster:
    """Users of a cluster. Every PID is in use all the time, and new PIDs replace a share of them in an hour."""

    principals: int
    pids_each: int
    new_share: float = 0.01

    def records_in(self, seconds: float) -> int:
        """Return how many records the plugins write in a time: one per principal, broker and repeat interval."""
        return round(self.principals * BROKERS_EACH * seconds * 1000 / REPEAT_MS)


class Plugins:
    """The plugins of a cluster. They write the PIDs of a principal at a moment of its own in each interval."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._random, self._new_due = cluster, np.random.default_rng(1), 0.0
        self._pids = np.arange(cluster.principals * cluster.pids_each).reshape(cluster.principals, cluster.pids_each)
        self._next_pid = self._pids.size
        self._due: dict[int, list[tuple[int, int]]] = defaultdict(list)
        step = BROKERS // BROKERS_EACH
        for owner in range(cluster.principals):
            for broker in range(owner % step, BROKERS, step):
                self._due[zlib.crc32(f"{owner} {broker}".encode()) % ROUNDS].append((owner, broker))

    def records(self, number: int, at_ms: int) -> Iterator[Record]:
        """Yield the records (principal, value) of all plugins in a round."""
        self._new_due += self._cluster.new_share * self._pids.size * ROUND_MS / 3_600_000
        while self._new_due >= 1:
            self._new_due -= 1
            owner, place = (int(self._random.integers(size)) for size in self._pids.shape)
            self._pids[owner, place] = self._next_pid
            yield record(f"User:app-{owner}", [self._next_pid], at_ms)
            self._next_pid += 1
        for owner, broker in self._due[number % ROUNDS]:
            yield record(f"User:app-{owner}", self._pids[owner].tolist(), at_ms, broker)


def record(principal: str, pids: Sequence[int], at_ms: int, broker: int = 0) -> Record:
    """Return the record of a principal's PIDs on a broker, all of them used at a time."""
    groups = [EventGroup("orders", f"client-{principal[-1]}", address="10.0.0.5")]
    partitions = [pid % BROKERS for pid in pids]
    content = EventRecord(at_ms, principal, [0] * len(pids), list(pids), broker, groups, partitions=partitions)
    return principal, msgspec.json.encode(content)


def fill(broker: LocalBroker, cluster: Cluster, seconds: float) -> None:
    """Write the records of some seconds before now."""
    plugins, begin_ms = Plugins(cluster), now_ms() - round(seconds * 1000)
    rounds = range(round(seconds * 1000 / ROUND_MS))
    write(broker, (each for number in rounds for each in plugins.records(number, begin_ms + number * ROUND_MS)))


def traffic(broker: LocalBroker, records: Callable[[int, int], Iterable[Record]]) -> AbstractContextManager[None]:
    """Write the records of each round (its number, ms since the epoch) as time passes, during the `with` block."""

    def paced(is_over: threading.Event) -> Iterator[Record]:
        begin, number = time.monotonic(), 0
        while not is_over.wait(max(0.0, begin + number * ROUND_MS / 1000 - time.monotonic())):
            yield from records(number, now_ms())
            number += 1

    return in_background(lambda is_over: write(broker, paced(is_over)))


def flood_records(number: int, at_ms: int) -> list[Record]:
    """Return the record of a round in which a user has 5,000 new PIDs a second."""
    first = _FLOOD_PID + number * FLOOD_SIZE
    return [record("User:flood", range(first, first + FLOOD_SIZE), at_ms)]


def exceed(broker: LocalBroker, principal: str, quota: int) -> float:
    """Let a new principal exceed its quota by one record, and return when, in seconds since the epoch."""
    # One PID in ten thousand is mistaken for a known one.
    first = time.time_ns() // 1000
    write(broker, [record(principal, range(first, first + quota + 10), now_ms())])
    return time.time()


def write(broker: LocalBroker, records: Iterable[Record]) -> None:
    """Write records to the topic of events."""
    producer = Producer(broker.admin_config() | _SETTINGS)
    for name, value in records:
        producer.produce(PRODUCE_EVENTS, value, name)
        producer.poll(0)
    producer.flush(60)


def now_ms() -> int:
    return time.time_ns() // 1_000_000
