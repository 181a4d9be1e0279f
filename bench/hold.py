"""What a hold does to new producers of a principal, to her known one, to alice and to the broker.

    .venv/bin/python bench/hold.py                       # about twelve minutes; needs a JDK and Go
    .venv/bin/python bench/hold.py --clients java --parallel 10

Each line compares a crowd that makes a producer per message without a hold (twice, for the noise) and under one.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka import KafkaProducer
from kafka.errors import KafkaError

from broker.cluster.hold_bindings import HoldBindings
from broker.cluster.kafka_config import KafkaConfig
from broker.jars.jar_sets import kafka_classpath
from broker.jars.java import find_java
from broker.local.local_broker import LocalBroker
from broker.process import start_reading
from wire.holds import HoldBinding

TOPIC = "orders"
CLIENTS = ("confluent-kafka", "kafka-python", "java", "franz-go", "sarama")
GO = ("franz-go", "sarama")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", default=",".join(CLIENTS))
    parser.add_argument("--parallel", default="1,10,100")
    parser.add_argument("--seconds", type=float, default=8.0, help="length of each measurement")
    parser.add_argument("--waiting", type=int, default=1000, help="producers whose waiting costs the broker; 0: none")
    parser.add_argument("--as-crowd", metavar="JSON", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_crowd:
        be_crowd(json.loads(options.as_crowd))
        return
    with tempfile.TemporaryDirectory() as folder, LocalBroker(Path(folder, "kafka"), holds=True) as broker:
        admin = AdminClient({**broker.admin_config()})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result()
        print("client           parallel  new/s: free, held  known held/free  alice p99: free twice, held  through s")
        for client in options.clients.split(","):
            for parallel in map(int, options.parallel.split(",")):
                compare(broker, client, parallel, options.seconds)
        if options.waiting:
            cost_of_waiting(broker, options.waiting, options.seconds)


def compare(broker: LocalBroker, client: str, parallel: int, seconds: float) -> None:
    with crowd(broker, client, parallel) as state:
        known, alice = Steady(broker, "mallory"), Steady(broker, "alice")
        wait(lambda: state.counts and min(state.counts) > 0)
        free = [measure(state, known, alice, seconds) for _ in range(2)]
        with holding(broker, seconds + 3) as until:
            # What was under way when it began.
            time.sleep(2)
            held = measure(state, known, alice, seconds)
            waiting, counts = state, list(state.counts)
            wait(lambda: all(now > then for now, then in zip(waiting.counts, counts, strict=True)))
            through = time.time() - until
    ratio = held[1] / (sum(each[1] for each in free) / 2)
    print(
        f"{client:15s}  {parallel:8d}  {free[1][0]:11.1f}, {held[0]:4.1f}  {ratio:17.2f}  "
        f"{free[0][2]:7.1f}, {free[1][2]:5.1f}, {held[2]:5.1f}{'':12s}{through:9.2f}"
        + (f"  {state.failed} failed" if state.failed else ""),
        flush=True,
    )


def measure(state: "Crowd", known: "Steady", alice: "Steady", seconds: float) -> tuple[float, float, float]:
    """Messages of new producers and of the known one, a second; alice's p99 in milliseconds."""
    before, start = sum(state.counts), time.monotonic()
    threads = [threading.Thread(target=each.run, args=(seconds,)) for each in (known, alice)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    new = (sum(state.counts) - before) / (time.monotonic() - start)
    taken = sorted(alice.taken_ms)
    return new, len(known.taken_ms) / seconds, taken[int(len(taken) * 0.99)]


class Steady:
    """One producer that stays open and waits for each message."""

    def __init__(self, broker: LocalBroker, user: str) -> None:
        self._producer = Producer(
            {**broker.client_config(user), "enable.idempotence": True, "linger.ms": 0, "log_level": 0}
        )
        self.taken_ms: list[float] = []

    def run(self, seconds: float) -> None:
        self.taken_ms, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            start = time.monotonic()
            self._producer.produce(TOPIC, b"one order")
            self._producer.flush(30)
            self.taken_ms.append(1000 * (time.monotonic() - start))
            time.sleep(0.005)


@contextmanager
def holding(broker: LocalBroker, seconds: float) -> Iterator[float]:
    until_ms = round(1000 * (time.time() + seconds))
    with HoldBindings({"bootstrap_servers": broker.admin_servers}) as holds:
        hold = HoldBinding("mallory", until_ms)
        holds.add(hold)
        yield until_ms / 1000
        holds.remove([hold])


# Producers that are made for a message each


class Crowd:
    """How many messages each thread has delivered."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.failed = 0

    def read(self, process: subprocess.Popen[str]) -> None:
        for line in process.stdout or ():
            if line.startswith("failed"):
                self.failed += 1
            else:
                with suppress(ValueError):
                    self.counts = json.loads(line)


@contextmanager
def crowd(broker: LocalBroker, client: str, parallel: int) -> Iterator[Crowd]:
    settings = broker.client_config("mallory")
    own = [settings[name] for name in ("bootstrap.servers", "sasl.username", "sasl.password")]
    if client == "java":
        program = str(Path(__file__).with_name("HoldCrowd.java"))
        java = [find_java(), "-Xmx1g", "-Xss256k", "-cp", kafka_classpath(), program]
        process = start_reading([*java, *own, TOPIC, str(parallel)])
    elif client in GO:
        # The clients are those of the tests.
        from tests.broker.go_kit import build_go_clients

        program = build_go_clients(broker.log_file.parent)
        process = start_reading([program, client, *own, TOPIC, str(parallel), "crowd"])
    else:
        about = json.dumps({"client": client, "parallel": parallel, "settings": settings})
        process = start_reading([sys.executable, __file__, "--as-crowd", about])
    state = Crowd()
    reader = threading.Thread(target=state.read, args=(process,))
    reader.start()
    try:
        yield state
    finally:
        process.kill()
        process.wait()
        reader.join()
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.close()


def be_crowd(about: dict) -> None:
    delivered = [0] * about["parallel"]
    send = {"confluent-kafka": by_confluent_kafka, "kafka-python": by_kafka_python}[about["client"]]

    def run(number: int) -> None:
        while True:
            try:
                send(about["settings"])
                delivered[number] += 1
            except (KafkaError, TimeoutError) as error:
                print(f"failed {error!r}", flush=True)

    for number in range(about["parallel"]):
        threading.Thread(target=run, args=(number,), daemon=True).start()
    while True:
        time.sleep(0.05)
        print(delivered, flush=True)


def by_confluent_kafka(settings: dict) -> None:
    producer = Producer({**settings, "enable.idempotence": True, "log_level": 0})
    producer.produce(TOPIC, b"one order")
    if producer.flush(120):
        raise TimeoutError


def by_kafka_python(settings: dict) -> None:
    producer = KafkaProducer(**KafkaConfig(settings).kafka_python(), enable_idempotence=True)
    try:
        producer.send(TOPIC, b"one order").get(120)
    finally:
        producer.close()


# What waiting costs the broker


def cost_of_waiting(broker: LocalBroker, count: int, seconds: float) -> None:
    idle = cpu_share(broker, seconds)
    with holding(broker, 600), crowd(broker, "java", count) as state:
        wait(lambda: len(state.counts) == count)
        time.sleep(30)
        waiting = cpu_share(broker, seconds)
        delivered = sum(state.counts)
    print(f"broker CPU: idle {idle:.2f}, {count} Java producers waiting {waiting:.2f} cores; delivered {delivered}")


def cpu_share(broker: LocalBroker, seconds: float) -> float:
    """Cores that the broker's process uses."""

    def used_s() -> float:
        fields = Path(f"/proc/{broker.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    before = used_s()
    time.sleep(seconds)
    return (used_s() - before) / seconds


def wait(condition) -> None:
    give_up_at = time.monotonic() + 120
    while not condition():
        if time.monotonic() > give_up_at:
            raise TimeoutError
        time.sleep(0.01)


if __name__ == "__main__":
    main()
