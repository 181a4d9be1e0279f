"""Producers of client libraries: programs of Java, Go, Node.js and aiokafka, and threads of this process.

The libraries are fetched when a test first needs them, by the hashes in the lock files.
"""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer
from kafka import KafkaProducer

from broker.kafka.config import KafkaConfig
from jvm.jar_sets import kafka_classpath
from jvm.java import find_java
from tests.kits.broker_kit import LIMIT_S, wait_until

FOLDER = Path(__file__).parents[1] / "broker"
LIBRARIES = FOLDER / "library_clients"
PRODUCERS = 3
"""How many new producers a test makes."""
_USUAL_GO = "/usr/local/go/bin"


def java_program(jars: Path) -> list[str]:
    return [find_java(), "-cp", kafka_classpath(jars), str(FOLDER / "ProduceWhileHeld.java")]


def find_go() -> str | None:
    return shutil.which("go", path=os.pathsep.join((os.environ.get("PATH", ""), _USUAL_GO)))


def build_go_program(folder: Path) -> str:
    go, program = find_go(), str(folder / "go-clients")
    assert go, "there is no go command"
    subprocess.run([go, "build", "-C", FOLDER / "go_clients", "-buildvcs=false", "-o", program, "."], check=True)
    return program


def install_kafkajs(folder: Path) -> list[str]:
    install_by_npm(LIBRARIES, folder)
    return ["node", str(shutil.copy(str(LIBRARIES / "kafkajs_producer.js"), folder))]


def install_by_npm(locked: Path, folder: Path) -> None:
    """Install what the lock file in a folder names into another folder."""
    npm = shutil.which("npm")
    assert npm, "there is no npm command"
    for name in ("package.json", "package-lock.json"):
        shutil.copy(locked / name, folder)
    subprocess.run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder, check=True)


def install_aiokafka(folder: Path) -> list[str]:
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "--no-deps"]
    subprocess.run([*pip, "-r", str(LIBRARIES / "requirements.txt")], check=True)
    return [python, str(LIBRARIES / "aiokafka_producer.py")]


def command_of(program: Sequence[str], settings: dict[str, str], topic: str, *words: str) -> list[str]:
    """The arguments that all programs begin with; `settings` are a client's of confluent-kafka."""
    names = ("bootstrap.servers", "sasl.username", "sasl.password")
    return [*program, *(settings[name] for name in names), topic, *words]


class Program:
    """A running program. Its lines are a word, and with a delivery when that was, in milliseconds since the epoch."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process, self._lines = process, list[str]()
        self._reader = threading.Thread(target=lambda: self._lines.extend(process.stdout or ()))
        self._reader.start()

    def start(self) -> None:
        """Let a program go on that awaits a line."""
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def join(self) -> None:
        """Wait until it has ended, and has printed its last line."""
        self._reader.join(LIMIT_S)
        assert not self._reader.is_alive(), self._lines

    def wait_for(self, word: str, count: int = 1) -> None:
        wait_until(lambda: len(self.lines(word)) >= count, f"{count} times {word!r}")

    def lines(self, word: str) -> list[str]:
        """What follows a word, line by line."""
        lines = (line.strip().partition(" ") for line in [*self._lines])
        return [rest for first, _, rest in lines if first == word]

    def times(self, word: str) -> list[float]:
        """When what a word names happened, in seconds since the epoch."""
        return [int(each) / 1000 for each in self.lines(word)]

    def ends(self) -> list[float]:
        """When the messages of all new producers were delivered."""
        self.wait_for("new", PRODUCERS)
        return self.times("new")


@contextmanager
def running(command: Sequence[str], *, awaits_start: bool = False) -> Iterator[Program]:
    """Run a program for the block. One that awaits its start has then said that it is ready."""
    # Only its own environment: warnings are errors to the tests, not to the libraries.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as process:
        program = Program(process)
        try:
            if awaits_start:
                program.wait_for("ready")
            yield program
        finally:
            process.kill()
            program.join()


def send_by_confluent_kafka(settings: dict[str, str], topic: str, value: str) -> None:
    producer = Producer({**settings, "enable.idempotence": True, "log_level": 0})
    producer.produce(topic, value)
    assert producer.flush(60) == 0


def send_by_kafka_python(settings: dict[str, str], topic: str, value: str) -> None:
    producer = KafkaProducer(**KafkaConfig(settings).kafka_python(), enable_idempotence=True)
    try:
        producer.send(topic, value.encode()).get(60)
    finally:
        producer.close()


class PythonProducers(ThreadPoolExecutor):
    """Producers of a library in this process that send a message each."""

    def __init__(self, send: Callable[..., None], settings: dict[str, str], topic: str) -> None:
        super().__init__(PRODUCERS)
        self._send, self._arguments = send, (settings, topic, "waited")

    def start(self) -> None:
        self._sent = [self.submit(self._send_one) for _ in range(PRODUCERS)]

    def ends(self) -> list[float]:
        """When each message was delivered, in seconds since the epoch."""
        return [each.result(LIMIT_S) for each in self._sent]

    def _send_one(self) -> float:
        self._send(*self._arguments)
        return time.time()
