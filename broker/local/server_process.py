"""A Kafka server process."""

import base64
import os
import socket
import sys
import time
import uuid
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from broker.errors import BrokerStartError, LocalBrokerError, PortTakenError
from broker.local.server_files import HOST, Ports
from jvm.class_archive import ClassArchive
from jvm.java import find_java, quick_options
from jvm.process import end, run_to_end, start_watched

if TYPE_CHECKING:
    import subprocess

_START_TIMEOUT_S = 90.0
_STOP_TIMEOUT_S = 20.0
# Exit code of a JVM that SIGTERM ended.
_TERMINATED = 143
_POLL_S = 0.1
_QUOTED_LINES = 8
_PORT_TAKEN = ("Address already in use", "failed to bind")
_JVM_OPTIONS = (
    "-Xms128m",
    "-XX:+UseSerialGC",
    "-Xshare:auto",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
)


@dataclass(frozen=True)
class Jvm:
    """JVM settings of a server."""

    classpath: str
    log_option: str
    more_jars: tuple[Path, ...] = ()
    heap_mb: int = 512

    @property
    def whole_classpath(self) -> str:
        """Class path with all jars."""
        return os.pathsep.join((self.classpath, *map(str, self.more_jars)))


class ServerProcess:
    """A Kafka server with all its files in one folder. `server.properties` must exist before `launch`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.properties = folder / "server.properties"
        self.server_log = folder / "server.log"
        self.launched_ms = 0.0
        """When the process was started, in ms since the epoch."""
        self._process: subprocess.Popen[bytes] | None = None
        self._archive: ClassArchive | None = None
        self._log_start = 0

    @property
    def pid(self) -> int | None:
        """Process id of the JVM, or None."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def format(self, jvm: Jvm, cluster_id: str) -> None:
        """Format the data folder for a cluster, unless it is already formatted."""
        if (self.folder / "data" / "meta.properties").exists():
            return
        tool = ["kafka.tools.StorageTool", "format", "--cluster-id", cluster_id, "--config", str(self.properties)]
        java = find_java()
        options = ["-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        options += ClassArchive.find(java, jvm.whole_classpath).options(write=False)
        code, answer = run_to_end([java, *options, "-cp", jvm.whole_classpath, *tool], _START_TIMEOUT_S)
        if code != 0:
            msg = f"can't format the data folder {self.folder}: {_last_lines(answer)}"
            raise BrokerStartError(msg)

    def launch(self, jvm: Jvm) -> None:
        """Start the process without waiting."""
        if self.pid is not None:
            msg = f"the broker is already running (process {self.pid}): stop it first"
            raise LocalBrokerError(msg)
        log_options = (f"-Dkafka.logs.dir={self.folder}", jvm.log_option)
        java = find_java()
        self._archive = ClassArchive.find(java, jvm.whole_classpath)
        archived = self._archive.options(write=True)
        options = (f"-Xmx{jvm.heap_mb}m", *_JVM_OPTIONS, *quick_options(), *archived, *log_options)
        command = [java, *options, "-cp", jvm.whole_classpath, "kafka.Kafka", str(self.properties)]
        self.launched_ms = 1000 * time.time()
        self._log_start = self.server_log.stat().st_size if self.server_log.exists() else 0
        self._process = start_watched(command, self.folder / "broker.out")

    def wait_until_ready(self, ports: Ports) -> None:
        """Wait until the server answers. After an error or interrupt, kill the server."""
        try:
            self._wait(ports)
        except BaseException:
            # Leave no process behind, even on Ctrl-C.
            self.kill()
            raise

    def stop(self) -> None:
        """Shut the server down cleanly. After a timeout, kill the server."""
        process, self._process = self._process, None
        if process is not None:
            end(process, _STOP_TIMEOUT_S)
            if self._archive is not None and process.returncode == _TERMINATED:
                self._archive.keep()

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            if process.stdin:
                # This ends the watchdog.
                process.stdin.close()

    def _wait(self, ports: Ports) -> None:
        give_up_at = time.monotonic() + _START_TIMEOUT_S
        admin = AdminClient({"bootstrap.servers": f"{HOST}:{ports.inner}", "log_level": 0})
        while True:
            if self._process is None or self._process.poll() is not None:
                raise self._start_error(ports)
            # An answer does not suffice: if the port is taken, another process answers.
            if "Kafka Server started" in _text_from(self.server_log, self._log_start):
                try:
                    admin.list_topics(timeout=_POLL_S * 10)
                except KafkaException:
                    pass
                else:
                    return
            if time.monotonic() > give_up_at:
                msg = f"the broker did not answer within {_START_TIMEOUT_S:g} s: see {self.server_log}"
                raise BrokerStartError(msg)
            time.sleep(_POLL_S)

    def _start_error(self, ports: Ports) -> BrokerStartError:
        text = _text_from(self.server_log, self._log_start) + _text_from(self.folder / "broker.out", 0)
        if any(words in text for words in _PORT_TAKEN):
            used = f"{ports.clients}, {ports.inner}, {ports.controller}"
            return PortTakenError(f"one of the ports {used} on {HOST} is taken: stop its owner or choose another port")
        return BrokerStartError(f"the broker exited at start; its last lines: {_last_lines(text)}")


def new_cluster_id() -> str:
    """Return a random cluster id in Kafka's format."""
    # Avoid dashes: Kafka's tool takes a leading dash (1 id in 64) for an option.
    return base64.b64encode(uuid.uuid4().bytes, altchars=b"AB").decode("ascii").rstrip("=")


def free_ports(servers: int = 1) -> list[Ports]:
    """Return free ports, three per server.

    On Linux, the system gives a port to no other process while the returned `Ports` lives, so that a killed broker can
    start again on its ports.
    """
    # Keep all sockets open until all are bound, so that the ports differ.
    sockets = [socket.socket() for _ in range(3 * servers)]
    for held in sockets:
        # With this option, which Kafka's sockets have, too, a server can listen on a port that is only bound here.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((HOST, 0))
    chosen = []
    for at in range(0, len(sockets), 3):
        held_for_one = sockets[at : at + 3]
        ports = Ports(*(int(held.getsockname()[1]) for held in held_for_one))
        release = weakref.finalize(ports, _close, [held.detach() for held in held_for_one])
        if sys.platform != "linux":
            # Other systems let no second socket bind the port.
            release()
        chosen.append(ports)
    return chosen


def _close(files: list[int]) -> None:
    for each in files:
        os.close(each)


def sasl_plain(bootstrap_servers: str, users: dict[str, str], user: str) -> dict[str, str]:
    """Return a user's confluent-kafka settings."""
    if user not in users:
        msg = f"no user {user!r} on this broker (users: {', '.join(sorted(users))}): add it to `users`"
        raise LocalBrokerError(msg)
    return {
        "bootstrap.servers": bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": users[user],
    }


def _text_from(path: Path, start: int) -> str:
    try:
        with path.open("rb") as file:
            file.seek(start)
            return file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def _last_lines(text: str) -> str:
    # Drop stack frames, which would displace the messages.
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    return " | ".join(lines[-_QUOTED_LINES:]) or "none"
