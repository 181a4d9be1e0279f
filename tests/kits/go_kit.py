"""Producers of Go's client libraries (`go_clients`)."""

import os
import shutil
import subprocess
import threading
from pathlib import Path

from tests.kits.broker_kit import wait_until

SOURCE = Path(__file__).parents[1] / "broker" / "go_clients"
_USUAL_FOLDER = "/usr/local/go/bin"


def find_go() -> str | None:
    return shutil.which("go", path=os.pathsep.join((os.environ.get("PATH", ""), _USUAL_FOLDER)))


def build_go_clients(folder: Path) -> str:
    """The program; its libraries are fetched once."""
    go, program = find_go(), str(folder / "go-clients")
    assert go, "there is no go command"
    subprocess.run([go, "build", "-C", str(SOURCE), "-buildvcs=false", "-o", program, "."], check=True)
    return program


def go_command(program: str, library: str, settings: dict[str, str], topic: str, count: int, mode: str) -> list[str]:
    """The program's arguments; `settings` are a client's of confluent-kafka."""
    names = ("bootstrap.servers", "sasl.username", "sasl.password")
    return [program, library, *(settings[name] for name in names), topic, "orders-app", str(count), mode]


class GoProducers:
    """One known producer, and new ones that send a message each once they are told to."""

    def __init__(self, program: str, library: str, settings: dict[str, str], topic: str, count: int) -> None:
        self._command = go_command(program, library, settings, topic, count, "once")
        self._count = count
        self._lines: list[str] = []

    def __enter__(self) -> "GoProducers":
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=lambda: self._lines.extend(self._process.stdout or ()))
        self._reader.start()
        try:
            wait_until(lambda: "ready\n" in self._lines, "the known producer has sent")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()

    def start(self) -> None:
        assert self._process.stdin
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def ends(self) -> list[float]:
        """When each message of a new producer was delivered, in seconds since the epoch."""
        wait_until(lambda: len(self._delivered("new")) == self._count, f"all are through: {self.failures}")
        return self._delivered("new")

    @property
    def known(self) -> list[float]:
        """When the known producer's messages were delivered."""
        return self._delivered("known")

    @property
    def failures(self) -> list[str]:
        return [line for line in self._lines if line.startswith("failed")]

    def _delivered(self, which: str) -> list[float]:
        lines = [line.split() for line in list(self._lines)]
        return [int(line[1]) / 1000 for line in lines if line[0] == which]
