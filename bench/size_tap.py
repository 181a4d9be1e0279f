"""What does an event and a record cost the tap? CPU time of the real tap over made-up files of lines.

    .venv/bin/python bench/size_tap.py

Each file holds lines of one kind; the tap reads it to its end and writes to a real broker, which does not count.
Figures are medians of rounds in which the files take turns, without what a tap over an empty file takes. The last line
is JSON.
"""

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from confluent_kafka import Consumer
from size_processes import SizeError

from broker.kafka.tail import bounds
from broker.kafka.topics import DEFAULT_PARTITIONS, ensure_topics
from broker.local.local_broker import LocalBroker
from broker.log.sources import FileSource
from broker.tap.source_tap import SourceTap
from wire.topics import PRODUCE_EVENTS

LINE = (
    '{"type":"batch","number":%d,"timestamp_ms":%d,"broker_id":1,"principal":"User:app-%d","producer_id":%d,'
    '"producer_epoch":0,"topic":"orders","partition":0,"address":"10.0.0.7","client_id":"app","api_version":12}\n'
)
PRINCIPALS = 20_000
WAIT_S = 300
POLL_S = 0.02


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=100_000, help="lines of each file")
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
    costs = {}
    for name, found in spent.items():
        net = [each - empty for each, empty in zip(found[1:], spent["empty"][1:], strict=True)]
        costs[name] = spread([each / asked.lines * 1e6 for each in net])
        print(f"  {name:22} {costs[name]['median']:>8.2f} us  {records[name]:>8} records")
    print(json.dumps(vars(asked) | {"us": costs, "records": records, "figures": figures(costs, records, sizes, asked)}))


def figures(
    costs: dict[str, dict[str, float]], records: dict[str, int], sizes: dict[str, int], asked: argparse.Namespace
) -> dict[str, float]:
    """Return the constants of the model, in microseconds and bytes."""
    alone, together = costs["events, many"]["median"], costs["events, one"]["median"]
    # An event costs e + r / n, for n events a record.
    many, one = records["events, many"] / asked.lines, records["events, one"] / asked.lines
    record = (alone - together) / (many - one) if many - one > 0.1 else None
    found = {"event_with_record_us": alone, "line_bytes": sizes["events, many"] / asked.lines}
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
        return sum(bounds(consumer, PRODUCE_EVENTS, number, WAIT_S)[1] for number in range(DEFAULT_PARTITIONS))
    finally:
        consumer.close()


# The files


def empty(_: int) -> Iterator[str]:
    return iter(())


def one(lines: int) -> Iterator[str]:
    """Always another PID of one principal."""
    for number in range(lines):
        yield LINE % (number + 1, at_ms(number), 0, number)


def many(lines: int) -> Iterator[str]:
    """Always another PID, of another principal."""
    for number in range(lines):
        yield LINE % (number + 1, at_ms(number), number % PRINCIPALS, number)


def at_ms(number: int) -> int:
    """Ten thousand a second."""
    return 1_790_000_000_000 + number // 10


LOGS: dict[str, Callable[[int], Iterator[str]]] = {"empty": empty, "events, one": one, "events, many": many}


if __name__ == "__main__":
    main()
