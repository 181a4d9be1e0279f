"""Measures what the plugin costs a broker.

Five brokers without the plugin and five with it run at the same time. They take turns at the same load, in both orders,
so that other load affects all of them alike: 2,000 producers with one record a request, the worst case. A broker's
figures are medians of its rounds. A ratio is that of the median broker with the plugin to the mean one without, and its
bounds are those of the other brokers, because each JVM compiles differently. Compiler threads do not count.
"""

import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from bench.kit import TICKS_PER_S, Figure, Found, create_topic, figure
from bench.raw_client import Connection, batch_of
from broker.local.local_broker import LocalBroker

BROKERS, ROUNDS, WARM_UP_S, ROUND_S = 5, 8, 10.0, 2.0
KINDS: tuple[dict[str, Any], ...] = ({"metric_reporters": "org.apache.kafka.common.metrics.JmxReporter"}, {})
"""Properties of a server without the plugin, and of one with it."""
OUTSTANDING = 200
"""Requests without an answer, at any time."""
PRODUCERS, PARTITIONS = 2_000, 4
NEW_EVERY = 501
"""After this many requests, a new producer id replaces that of the producer whose turn it is."""
_FIRST_ID = 1 << 40
"""No broker gives it out."""


class Load(NamedTuple):
    """A load on a broker: requests per second, latency in s, and the broker's CPU time per request in s."""

    rate: float
    p99: float
    cpu: float


def batches() -> Iterator[tuple[int, int, int]]:
    """Yield partition, id and sequence number of batches of a broker's producers, which take turns."""
    ids, sequences = list(range(_FIRST_ID, _FIRST_ID + PRODUCERS)), [0] * PRODUCERS
    for turn in count(1):
        at = turn % PRODUCERS
        if turn % NEW_EVERY == 0:
            ids[at], sequences[at] = _FIRST_ID + PRODUCERS + turn, 0
        yield at % PARTITIONS, ids[at], sequences[at]
        sequences[at] += 1


def measure(share: float) -> Found:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        brokers = []
        for number, properties in enumerate(KINDS * max(1, round(share * BROKERS))):
            brokers.append(stack.enter_context(LocalBroker(Path(folder, f"{number}"), **properties)))
            create_topic(brokers[-1], PARTITIONS)
        turns, rounds = [(each, batches()) for each in brokers], [list[Load]() for _ in brokers]
        for each in turns:
            loaded(*each, share * WARM_UP_S)
        for number in range(max(2, round(share * ROUNDS))):
            for at in range(len(turns)) if number % 2 else reversed(range(len(turns))):
                rounds[at].append(loaded(*turns[at], ROUND_S))
    return {"figures": ratios(rounds[::2], rounds[1::2])}


def loaded(broker: LocalBroker, producers: Iterator[tuple[int, int, int]], seconds: float) -> Load:
    """Send messages of all producers in turn, each message in its own request."""
    latencies_s, sent = list[float](), 0
    with closing(Connection(broker.admin_servers)) as connection:
        cpu_s, began = cpu_seconds(broker), time.perf_counter()
        while (is_on := time.perf_counter() - began < seconds) or connection.sent:
            while is_on and len(connection.sent) < OUTSTANDING:
                partition, producer_id, sequence = next(producers)
                connection.produce(partition, batch_of(producer_id, sequence))
                sent += 1
            latencies_s.append(connection.receive()[0])
        took_s = time.perf_counter() - began
    return Load(sent / took_s, statistics.quantiles(latencies_s, n=100)[98], (cpu_seconds(broker) - cpu_s) / sent)


def cpu_seconds(broker: LocalBroker) -> float:
    """Return the CPU time of a broker's threads, except the JVM's compiler threads."""
    ticks = 0
    for thread in Path(f"/proc/{broker.pid}/task").iterdir():
        with suppress(FileNotFoundError):
            name, _, rest = (thread / "stat").read_text().rpartition(")")
            ticks += 0 if "CompilerThre" in name else sum(map(int, rest.split()[11:13]))
    return ticks / TICKS_PER_S


def ratios(without: Sequence[Sequence[Load]], with_it: Sequence[Sequence[Load]]) -> dict[str, Figure]:
    """Return the ratios of brokers with the plugin to those without, from the rounds of each broker."""
    found = {}
    for name in Load._fields:
        off, on = (
            [statistics.median(getattr(each, name) for each in rounds) for rounds in kind]
            for kind in (without, with_it)
        )
        base = statistics.mean(off)
        found[f"broker_{name}_ratio"] = figure([each / base for each in on])
    return found
