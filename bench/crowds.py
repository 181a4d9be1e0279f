"""Crowds of producers of eight client libraries, and hosts of their own for them.

A host is an address of the loopback interface in a network namespace of ours: all connections of one Linux user id come
from it, whatever the library. That needs root on Linux.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Producer
from loads import BenchError

from broker.local.local_broker import LocalBroker
from jvm.jar_sets import kafka_classpath
from jvm.java import find_java
from jvm.process import reading, run_to_end
from tests.kits.go_kit import build_go_clients
from tests.kits.library_kit import install_aiokafka, install_kafkajs

if TYPE_CHECKING:
    from subprocess import Popen

CLIENTS = Path(__file__).with_name("clients")
LIBRARIES = ("confluent-kafka", "kafka-python", "aiokafka", "java", "java-2.4.1", "kafkajs", "franz-go", "sarama")
OLD_JAVA = "2.4.1"
PAUSE_S = 0.005
BUILD_LIMIT_S = 300


@dataclass(frozen=True)
class Host:
    """Where a client runs: an address, and the Linux user whose connections come from it."""

    address: str
    uid: int

    def command(self, command: Sequence[str]) -> list[str]:
        """Return what runs a command on this host; it may read what root may."""
        rights = ("--inh-caps=+dac_override", "--ambient-caps=+dac_override")
        return ["/usr/bin/setpriv", f"--reuid={self.uid}", *rights, *command]


HERS = Host("127.0.0.2", 20_002)
ALICES = Host("127.0.0.3", 20_003)


def make_hosts() -> None:
    """Give each host its address, in a network namespace that nobody else uses (`unshare --net`)."""
    commands = ["link set lo up", "rule add pref 10 lookup local", "rule del pref 0"]
    for host in (HERS, ALICES):
        commands += [
            f"address add {host.address}/8 dev lo",
            f"rule add pref 5 uidrange {host.uid}-{host.uid} lookup {host.uid}",
            f"route add local 127.0.0.0/8 dev lo src {host.address} table {host.uid}",
        ]
    for each in commands:
        _run(["/usr/sbin/ip", *each.split()])


def prepare(libraries: Sequence[str], folder: Path) -> dict[str, list[str]]:
    """Fetch and build clients; return the command of each library, to be followed by its settings."""
    # Java asks what its user may read, not what its rights are.
    folder.chmod(0o755)
    python = str(CLIENTS / "python_crowd.py")
    commands = {name: [sys.executable, python, name] for name in ("confluent-kafka", "kafka-python")}
    java, program = find_java(), str(CLIENTS / "JavaCrowd.java")
    commands["java"] = [java, "-Xmx1g", "-Xss256k", "-cp", kafka_classpath(), program]
    if {"franz-go", "sarama"} & {*libraries}:
        built = build_go_clients(folder)
        commands |= {name: [built, name] for name in ("franz-go", "sarama")}
    if "kafkajs" in libraries:
        # It finds the library beside itself.
        (folder / "node").mkdir()
        node, _ = install_kafkajs(folder / "node")
        crowd = (folder / "node" / "kafkajs_crowd.js").resolve()
        crowd.write_text((CLIENTS / crowd.name).read_text())
        commands["kafkajs"] = [node, str(crowd)]
    if "aiokafka" in libraries:
        own_python, _ = install_aiokafka(folder / "aiokafka")
        commands["aiokafka"] = [own_python, python, "aiokafka"]
    if "java-2.4.1" in libraries:
        commands["java-2.4.1"] = [java, "-Xmx1g", "-Xss256k", "-cp", fetch_old_java(folder / "java"), program]
    return {name: commands[name] for name in libraries}


def fetch_old_java(folder: Path) -> str:
    """Return the class path of an old version of Kafka's own client."""
    import pyspark

    (ivy,) = Path(pyspark.__file__).parent.glob("jars/ivy-*.jar")
    settings = os.environ.get("PID_QUOTA_IVY_SETTINGS")
    command = [find_java(), "-jar", str(ivy), *(["-settings", settings] if settings else [])]
    command += ["-dependency", "org.apache.kafka", "kafka-clients", OLD_JAVA, "-cache", str(folder / "cache")]
    command += ["-confs", "default", "-retrieve", f"{folder}/[artifact]-[revision].[ext]", "-types", "jar", "bundle"]
    _run(command)
    return os.pathsep.join(map(str, folder.glob("*.jar")))


def _run(command: Sequence[str]) -> None:
    code, output = run_to_end(command, BUILD_LIMIT_S)
    if code:
        raise BenchError(output)


class Crowd:
    """How many messages each of its members has delivered, each by a new producer."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.failed = 0

    def read(self, process: "Popen[str]") -> None:
        """Follow its output."""
        for line in process.stdout or ():
            if line.startswith("failed"):
                self.failed += 1
            else:
                with suppress(ValueError):
                    self.counts = json.loads(line)


@contextmanager
def crowd(command: Sequence[str], broker: LocalBroker, topic: str, client_id: str, count: int) -> Iterator[Crowd]:
    """Run so many members on mallory's host, each of which makes a producer per message."""
    settings = broker.client_config("mallory")
    own = [settings[name] for name in ("bootstrap.servers", "sasl.username", "sasl.password")]
    state = Crowd()
    with _followed(HERS.command([*command, *own, topic, client_id, str(count)]), state.read):
        yield state


class Steady:
    """A producer that stays open, and waits for each message."""

    def __init__(self) -> None:
        self._taken: list[tuple[float, float]] = []

    def read(self, process: "Popen[str]") -> None:
        """Follow its output."""
        for line in process.stdout or ():
            self._taken.append((time.monotonic(), float(line)))

    def since(self, start: float) -> list[float]:
        """How long its messages took, in milliseconds, those that arrived since then."""
        return [taken for at, taken in list(self._taken) if at >= start]


@contextmanager
def steady(host: Host, settings: Mapping[str, object], topic: str) -> Iterator[Steady]:
    """Run a known producer on a host."""
    state, about = Steady(), json.dumps({"settings": settings, "topic": topic})
    with _followed(host.command([sys.executable, __file__, about]), state.read):
        yield state


@contextmanager
def _followed(command: Sequence[str], read: "Callable[[Popen[str]], None]") -> Iterator[None]:
    """Run a program, with its output read in a thread, until the block ends."""
    with reading(command) as process:
        reader = threading.Thread(target=read, args=(process,))
        reader.start()
        try:
            yield
        finally:
            process.kill()
            reader.join()


def be_steady(settings: dict, topic: str) -> None:
    producer = Producer({**settings, "enable.idempotence": True, "linger.ms": 0, "log_level": 0})
    while True:
        start = time.monotonic()
        producer.produce(topic, b"one order")
        producer.flush()
        print(1000 * (time.monotonic() - start), flush=True)
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    be_steady(**json.loads(sys.argv[1]))
