"""Loads on a broker: a few producers with many messages, and many producers."""

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from bench.loads import BenchError
from bench.many_producers import Connection, Rotation, batch_of

OUTSTANDING = 200
"""Requests without an answer, at any time."""
FEW = 4
"""Producers of the load with few producers."""
MANY = 2_000
"""Producers of the load with many producers."""
NEW_EVERY = 500
"""One request in this many asks for a new producer id, which then replaces the oldest."""
_VALUE = b"x" * 100
_FLUSH_S = 60.0
_WAIT_S = 0.001
_TICKS = os.sysconf("SC_CLK_TCK")
_FIRST_ID = 1 << 40
"""First id of the producers that were there before the load. No broker gives it out."""


@dataclass(frozen=True)
class Target:
    """The broker and topic of a load, and the process id of the broker."""

    host: str
    port: int
    topic: str
    pid: int


@dataclass(frozen=True)
class Figures:
    """A load on a broker: rate, latency of produce requests, and the broker's CPU time."""

    records_per_second: float
    p99_ms: float
    broker_cpu_us_per_record: float


Run = Callable[[float], Figures]
"""Runs a load on a broker for some seconds."""


def few_producers(target: Target, partitions: int, seconds: float) -> Figures:
    """Send messages of a few producers of a client library, each message in its own request."""
    latencies: list[float] = []
    failures: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error.str())
        latencies.append(message.latency() or 0.0)

    settings = {"enable.idempotence": True, "linger.ms": 0, "batch.num.messages": 1, "log_level": 3}
    servers = {"bootstrap.servers": f"{target.host}:{target.port}"}
    producers = [Producer({**servers, **settings}) for _ in range(FEW)]
    for each in producers:
        each.produce(target.topic, _VALUE, partition=0)
        each.flush(_FLUSH_S)
    sent, cpu_s, began = 0, cpu_seconds(target.pid), time.perf_counter()
    while time.perf_counter() - began < seconds and not failures:
        while sent - len(latencies) < OUTSTANDING:
            producers[sent % FEW].produce(
                target.topic, _VALUE, partition=sent // FEW % partitions, on_delivery=delivered
            )
            sent += 1
        if not sum(each.poll(0) for each in producers):
            producers[sent % FEW].poll(_WAIT_S)
    for each in producers:
        each.flush(_FLUSH_S)
    if failures or len(latencies) < sent:
        msg = f"of {sent} messages, {sent - len(latencies)} did not arrive, others failed: {failures[:3]}"
        raise BenchError(msg)
    return figures(sent, latencies, time.perf_counter() - began, cpu_seconds(target.pid) - cpu_s)


def many_producers(target: Target, rotation: Rotation, seconds: float) -> Figures:
    """Send messages of many producers in turn, each message in its own request, and ask for new producer ids."""
    latencies: list[float] = []
    with Connection(target.host, target.port, target.topic) as connection:
        sent, cpu_s, began = 0, cpu_seconds(target.pid), time.perf_counter()
        while time.perf_counter() - began < seconds or connection.outstanding:
            while connection.outstanding < OUTSTANDING and time.perf_counter() - began < seconds:
                if sent % NEW_EVERY == 0:
                    connection.ask_for_id()
                producer_id, sequence, partition = rotation.take()
                at_ms = time.time_ns() // 1_000_000
                connection.produce({partition: batch_of(producer_id, sequence, at_ms)})
                sent += 1
            answer = connection.receive()
            if answer.is_produce:
                latencies.append(answer.took_s)
            elif answer.producer_id is not None:
                rotation.waiting.append(answer.producer_id)
        took_s = time.perf_counter() - began
    return figures(sent, latencies, took_s, cpu_seconds(target.pid) - cpu_s)


def _of_few(target: Target, partitions: int) -> Run:
    return partial(few_producers, target, partitions)


def _of_many(target: Target, partitions: int) -> Run:
    # The producers of a broker stay the same in all its rounds.
    ids = range(_FIRST_ID, _FIRST_ID + MANY)
    return partial(many_producers, target, Rotation(dict.fromkeys(ids, 0), partitions))


LOADS: dict[str, Callable[[Target, int], Run]] = {
    "few producers, many messages": _of_few,
    "many producers": _of_many,
}
"""Functions that begin a load on a broker's topic, given the topic's number of partitions."""


def figures(sent: int, latencies: Sequence[float], took_s: float, cpu_s: float) -> Figures:
    """Return the figures of a load."""
    return Figures(sent / took_s, 1000 * statistics.quantiles(latencies, n=100)[98], 1e6 * cpu_s / sent)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a JVM's threads, except its compiler threads."""
    ticks = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError):
            name, _, rest = (thread / "stat").read_text().rpartition(")")
            fields = rest.split()
            ticks += 0 if "CompilerThre" in name else int(fields[11]) + int(fields[12])
    return ticks / _TICKS


def ratios_of(runs: Mapping[str, Sequence[Sequence[Figures]]]) -> dict[str, dict[str, float | list[float]]]:
    """Return each form's figures and ratios to the form `off`, from the rounds of each of its brokers."""
    by_broker = {
        form: {
            name: [statistics.median(asdict(each)[name] for each in rounds) for rounds in of_form]
            for name in Figures.__dataclass_fields__
        }
        for form, of_form in runs.items()
    }
    found: dict[str, dict[str, float | list[float]]] = {}
    for form, medians in by_broker.items():
        found[form] = {}
        for name, values in medians.items():
            base, mean = statistics.mean(by_broker["off"][name]), statistics.mean(values)
            found[form][name] = round(mean, 2)
            found[form][f"{name}_ratio"] = round(mean / base, 3)
            found[form][f"{name}_spread"] = [round(bound / base, 3) for bound in (min(values), max(values))]
    return found
