"""Producers of kafkajs and aiokafka; their libraries are installed when a test first needs them (`library_clients`)."""

import os
import shutil
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from broker.local.local_broker import LocalBroker
from tests.kits.broker_kit import wait_until

SOURCE = Path(__file__).parents[1] / "broker" / "library_clients"
NO_PRODUCER_ID = -1
"""What a batch of a producer without idempotence has for one."""


def install_kafkajs(folder: Path) -> list[str]:
    """The command of a producer; the library comes from where npm is told to look, by the hash in the lock file."""
    npm, node = shutil.which("npm"), shutil.which("node")
    assert npm, "there is no npm command"
    assert node, "there is no node command"
    for name in ("package.json", "package-lock.json", "kafkajs_producer.js"):
        shutil.copy(SOURCE / name, folder)
    subprocess.run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder, check=True)
    return [node, str(folder / "kafkajs_producer.js")]


def install_aiokafka(folder: Path) -> list[str]:
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "--no-deps"]
    subprocess.run([*pip, "-r", str(SOURCE / "requirements.txt")], check=True)
    return [python, str(SOURCE / "aiokafka_producer.py")]


class LibraryProducer:
    """A process with one new producer that sends a message, and the lines that it writes."""

    def __init__(self, command: Sequence[str], settings: dict[str, str], topic: str, *words: str) -> None:
        names = ("bootstrap.servers", "sasl.username", "sasl.password")
        self._command = [*command, *(settings[name] for name in names), topic, *words]
        self.lines: list[str] = []

    def __enter__(self) -> "LibraryProducer":
        # Only its own environment: warnings are errors to the tests, not to the libraries.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True, env=environment)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        if self._process.stdout:
            self._process.stdout.close()

    def wait_for_end(self) -> None:
        wait_until(lambda: self._process.poll() is not None, f"it ends: {self.lines}")
        self._reader.join()

    @property
    def delivered_at(self) -> list[float]:
        """When its message was delivered, in seconds since the epoch."""
        return [int(line.split()[1]) / 1000 for line in self.lines if line.startswith("delivered")]

    @property
    def failures(self) -> list[str]:
        return [line.split()[1] for line in self.lines if line.startswith("failed")]

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self.lines.append(line.strip())


def producer_ids(broker: LocalBroker, topic: str) -> list[int]:
    """The producer id of each batch in a topic of one partition."""
    (segment,) = broker.folder.rglob(f"{topic}-0/00000000000000000000.log")
    content, start = segment.read_bytes(), 0
    found: list[int] = []
    while start < len(content):
        # Of a batch's header: its length after the first twelve bytes, and its producer id.
        found += struct.unpack_from(">q", content, start + 43)
        start += 12 + struct.unpack_from(">i", content, start + 8)[0]
    return found
