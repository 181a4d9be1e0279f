"""What does a line, an event and a record cost the tap? CPU time of the real tap over made-up logs.

    .venv/bin/python bench/size_tap.py

Each log holds lines of one kind, in the broker's own words; the tap reads it to its end and writes to a real broker,
which does not count. Figures are medians of rounds in which the logs take turns, without what a tap over an empty log
takes. The last line is JSON.
"""

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from size_processes import SizeError

from broker.cluster.topics import DEFAULT_PARTITIONS, ensure_topics
from broker.local.local_broker import LocalBroker
from broker.log.sources import FileSource
from broker.tap.source_tap import SourceTap
from wire.topics import PRODUCE_EVENTS

REQUEST = (
    '{"sn":%d,"ts":%d,"thread":"data-plane-kafka-request-handler-6","logger":"KafkaApis","message":"[KafkaApi-1] '
    "Handling request:RequestHeader(apiKey=PRODUCE, apiVersion=10, clientId=app, correlationId=7, headerVersion=2) -- "
    "{acks=-1,timeout=30000,partitionSizes=[AAAAAAAAAAAAAAAAAAAAAA:orders-0=73]} from connection "
    '127.0.0.1:40911-127.0.0.1:39570-1-0;securityProtocol:SASL_PLAINTEXT,principal:User:app-%d"}\n'
)
STATE = (
    '{"sn":%d,"ts":%d,"thread":"%s","logger":"ProducerStateManager","message":"[ProducerStateManager '
    "partition=orders-0] Updated producer %d state to ProducerAppendInfo(producerId=%d, producerEpoch=0, "
    "firstSequence=0, lastSequence=0, currentTxnFirstOffset=OptionalLong.empty, coordinatorEpoch=-1, "
    'lastTimestamp=1795330632803, startedTransactions=[])"}\n'
)
HANDLER, FOLLOWER = "data-plane-kafka-request-handler-6", "ReplicaFetcherThread-0-2"
PRINCIPALS = 20_000
WAIT_S = 300
POLL_S = 0.02


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=100_000, help="lines of each log")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    spent: dict[str, list[float]] = {name: [] for name in LOGS}
    records: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="pid-quota-tap-") as folder, LocalBroker(Path(folder, "kafka")) as broker:
        ensure_topics(broker.admin_config())
        for name, lines in LOGS.items():
            Path(folder, name).write_text("".join(lines(asked.lines)), encoding="utf-8")
        for _ in range(1 + asked.rounds):
            for name in LOGS:
                before = sent(broker)
                spent[name].append(cpu_seconds(broker, Path(folder, name)))
                records[name] = sent(broker) - before
        sizes = {name: Path(folder, name).stat().st_size for name in LOGS}
    # The first round warms up.
    pairs, costs = asked.lines // 2, {}
    for name, found in spent.items():
        net = [each - empty for each, empty in zip(found[1:], spent["empty"][1:], strict=True)]
        costs[name] = spread([each / (asked.lines if name in PER_LINE else pairs) * 1e6 for each in net])
        print(f"  {name:22} {costs[name]['median']:>8.2f} us  {records[name]:>8} records")
    print(json.dumps(vars(asked) | {"us": costs, "records": records, "figures": figures(costs, records, sizes, asked)}))


def figures(
    costs: dict[str, dict[str, float]], records: dict[str, int], sizes: dict[str, int], asked: argparse.Namespace
) -> dict[str, float]:
    """Return the constants of the model, in microseconds and bytes."""
    median = {name: each["median"] for name, each in costs.items()}
    pairs = asked.lines // 2
    alone, together = median["events, many"] - median["repeats"], median["events, one"] - median["repeats"]
    # An event costs e + r / n, for n events a record.
    many, one = records["events, many"] / pairs, records["events, one"] / pairs
    record = (alone - together) / (many - one) if many - one > 0.1 else None
    found = {
        "request_line_us": median["requests"],
        "batch_line_us": median["repeats"] - median["requests"],
        "replica_line_us": median["replicas"],
        "event_with_record_us": alone,
        "request_line_bytes": sizes["requests"] / asked.lines,
        "batch_line_bytes": sizes["replicas"] / asked.lines,
    }
    if record is not None:
        found |= {"record_us": record, "event_us": alone - record * many}
    return {name: round(value, 3) for name, value in found.items()}


def spread(values: list[float]) -> dict[str, float]:
    """Return median, least and most."""
    found = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {name: round(value, 2) for name, value in found.items()}


def cpu_seconds(broker: LocalBroker, log: Path) -> float:
    """Return the CPU time of this process while a tap reads a log to its end and delivers what it made of it."""
    source, stop, size = FileSource(log, 1), threading.Event(), log.stat().st_size
    tap = SourceTap(source, broker.admin_config(), position_file=log.with_name(f"{log.name}-{time.monotonic_ns()}"))
    thread = threading.Thread(target=tap.run, args=(stop,))
    began, give_up_at = time.process_time(), time.monotonic() + WAIT_S
    thread.start()
    while (source.position.offset if source.position else -1) < size:
        if not thread.is_alive() or time.monotonic() > give_up_at:
            msg = f"the tap stopped before the end of {log.name}, after {tap.counters}"
            raise SizeError(msg)
        time.sleep(POLL_S)
    stop.set()
    thread.join()
    return time.process_time() - began


def sent(broker: LocalBroker) -> int:
    """Return the records of the topic."""
    consumer = Consumer(broker.admin_config() | {"group.id": "size"})
    try:
        parts = [TopicPartition(PRODUCE_EVENTS, number) for number in range(DEFAULT_PARTITIONS)]
        return sum(consumer.get_watermark_offsets(each)[1] for each in parts)
    finally:
        consumer.close()


# The logs


def empty(_: int) -> Iterator[str]:
    return iter(())


def requests(lines: int) -> Iterator[str]:
    """Requests whose batches fail."""
    for number in range(lines):
        yield REQUEST % (number + 1, at_ms(number), number % PRINCIPALS)


def replicas(lines: int) -> Iterator[str]:
    """What a broker appends as a follower."""
    for number in range(lines):
        yield STATE % (number + 1, at_ms(number), FOLLOWER, number, number)


def repeats(lines: int) -> Iterator[str]:
    """Few PIDs, which come again and again."""
    yield from pairs_of(lines, lambda number: number % 20, lambda number: number % 20)


def one(lines: int) -> Iterator[str]:
    """Always another PID of one principal."""
    yield from pairs_of(lines, lambda _: 0, lambda number: number)


def many(lines: int) -> Iterator[str]:
    """Always another PID, of another principal."""
    yield from pairs_of(lines, lambda number: number % PRINCIPALS, lambda number: number)


def pairs_of(lines: int, principal: Callable[[int], int], pid: Callable[[int], int]) -> Iterator[str]:
    for number in range(lines // 2):
        yield REQUEST % (2 * number + 1, at_ms(number), principal(number))
        yield STATE % (2 * number + 2, at_ms(number), HANDLER, pid(number), pid(number))


def at_ms(number: int) -> int:
    """Ten thousand a second."""
    return 1_790_000_000_000 + number // 10


LOGS: dict[str, Callable[[int], Iterator[str]]] = {
    "empty": empty,
    "requests": requests,
    "replicas": replicas,
    "repeats": repeats,
    "events, one": one,
    "events, many": many,
}
PER_LINE = ("empty", "requests", "replicas")


if __name__ == "__main__":
    main()
