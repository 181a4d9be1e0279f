"""A real single-node Kafka broker on this machine, for the demo and the tests.

Broker and controller in one JVM, SASL/PLAIN for the users, a plain listener for ourselves, and the log that the tap
reads. It listens on the loopback address only and is gone when the `with` block ends, however that happens (see
`broker.watchdog`).
"""

from __future__ import annotations

import base64
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from broker.errors import BrokerStartError, LocalBrokerError, PortTakenError
from broker.jars import ensure_jars, kafka_classpath
from broker.java import find_java
from broker.process import run_to_end, start_watched
from broker.server_files import HOST, Ports, write_log_settings, write_server_properties

DEFAULT_USERS = {"alice": "alice-secret", "mallory": "mallory-secret", "admin": "admin-secret"}
"""Users of a demo broker; they are worth nothing elsewhere, since it listens on the loopback address only."""

BROKER_ID = 1

_START_TIMEOUT_S = 90.0
_STOP_TIMEOUT_S = 20.0
_POLL_S = 0.1
# Between choosing a free port and the broker binding it, another process may take it.
_PORT_ATTEMPTS = 5
_QUOTED_LINES = 8
_PORT_TAKEN = ("Address already in use", "failed to bind")
_JVM_OPTIONS = (
    "-Xmx512m",
    "-Xms128m",
    "-XX:+UseSerialGC",
    "-Xshare:auto",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
)


class LocalBroker:
    """Starts Kafka on entering the context, stops it on leaving."""

    def __init__(
        self,
        data_folder: Path,
        users: Mapping[str, str] = DEFAULT_USERS,
        *,
        jars: Path | None = None,
        super_users: Sequence[str] = ("admin",),
        port: int | None = None,
        **server_properties: object,
    ) -> None:
        """Nothing is started yet.

        Args:
            data_folder: topics, settings and logs of the broker; an empty or missing folder, or that of an earlier run.
            users: password by user name, for SASL/PLAIN.
            jars: folder of the jars, fetched if need be; `jars_folder()` if left out.
            super_users: names that pass every ACL.
            port: of the SASL listener; a free one if left out.
            server_properties: more of server.properties, with `_` for `.` (`producer_id_expiration_ms=60000`).
        """
        self._folder = data_folder.resolve()
        self._users = dict(users)
        self._super_users = tuple(super_users)
        self._jars = jars
        self._port = port
        self._extra = {name.replace("_", "."): value for name, value in server_properties.items()}
        self._ports: Ports | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        return f"LocalBroker({str(self._folder)!r}, users={sorted(self._users)}, pid={self.pid})"

    # What others need to know

    @property
    def bootstrap_servers(self) -> str:
        """Address for the users (SASL/PLAIN)."""
        return f"{HOST}:{self._known_ports().clients}"

    @property
    def admin_servers(self) -> str:
        """Address for ourselves: no password, principal `User:ANONYMOUS`, passes every ACL."""
        return f"{HOST}:{self._known_ports().inner}"

    @property
    def broker_id(self) -> int:
        """The node id."""
        return BROKER_ID

    @property
    def pid(self) -> int | None:
        """Process id of the JVM, None while it does not run."""
        return self._process.pid if self._process and self._process.poll() is None else None

    @property
    def log_file(self) -> Path:
        """The log that the tap reads."""
        return self._folder / "pid-quota-broker.log"

    @property
    def server_log(self) -> Path:
        """The broker's ordinary log."""
        return self._folder / "server.log"

    def client_config(self, user: str) -> dict[str, str]:
        """Settings of confluent-kafka for one of the users; holds the password."""
        if user not in self._users:
            msg = f"no user {user!r} on this broker, only {', '.join(sorted(self._users))}: name it in `users`"
            raise LocalBrokerError(msg)
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": self._users[user],
        }

    def admin_config(self) -> dict[str, str]:
        """Settings of confluent-kafka for ourselves."""
        return {"bootstrap.servers": self.admin_servers}

    # Life and death

    def __enter__(self) -> LocalBroker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start and wait until it answers.

        Raises:
            JavaError: no Java, or too old.
            JarsError: the jars could not be fetched.
            PortTakenError: somebody else listens on `port`, or on the ports of before a restart.
            BrokerStartError: anything else; quotes the broker's last lines.
        """
        if self.pid is not None:
            msg = f"the broker runs already (process {self.pid}): stop it first"
            raise LocalBrokerError(msg)
        self._folder.mkdir(parents=True, exist_ok=True)
        ensure_jars(self._jars)
        if self._ports is not None:
            self._start_on(self._ports)
            return
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            ports = _free_ports(self._port)
            try:
                self._start_on(ports)
            except PortTakenError:
                if attempt == _PORT_ATTEMPTS or self._port is not None:
                    raise
            else:
                self._ports = ports
                return

    def stop(self) -> None:
        """Stop in good order; killed if that takes too long."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._reap()

    def kill(self) -> None:
        """SIGKILL, as a crash would: for fault tests."""
        if self._process is not None:
            self._process.kill()
            self._reap()

    def restart(self) -> None:
        """Stop, if it runs, and start again: same ports, same data."""
        self.stop()
        self.start()

    def _reap(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.wait()
            if process.stdin:
                # Ends the watchdog.
                process.stdin.close()

    def _known_ports(self) -> Ports:
        if self._ports is None:
            msg = "the broker was not started yet and has no address: use it inside `with LocalBroker(...)`"
            raise LocalBrokerError(msg)
        return self._ports

    def _start_on(self, ports: Ports) -> None:
        java, classpath = find_java(), kafka_classpath(self._jars)
        properties = self._folder / "server.properties"
        write_server_properties(properties, ports, self._users, self._super_users, self._extra)
        log_settings = write_log_settings(self._folder)
        self._format(java, classpath, properties)

        log_options = (f"-Dkafka.logs.dir={self._folder}", f"-Dlog4j2.configurationFile={log_settings}")
        command = [java, *_JVM_OPTIONS, *log_options, "-cp", classpath, "kafka.Kafka", str(properties)]
        log_start = self.server_log.stat().st_size if self.server_log.exists() else 0
        self._process = start_watched(command, self._folder / "broker.out")
        try:
            self._wait_until_ready(ports, log_start)
        except BaseException:
            # Also on Ctrl-C: nothing of us may stay behind.
            self.kill()
            raise

    def _format(self, java: str, classpath: str, properties: Path) -> None:
        if (self._folder / "data" / "meta.properties").exists():
            return
        # Without dashes: an id that begins with one is taken for an option, once in 64 times.
        cluster_id = base64.b64encode(uuid.uuid4().bytes, altchars=b"AB").decode("ascii").rstrip("=")
        tool = ["kafka.tools.StorageTool", "format", "--cluster-id", cluster_id, "--config", str(properties)]
        code, answer = run_to_end(
            [java, "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classpath, *tool], _START_TIMEOUT_S
        )
        if code != 0:
            msg = f"the data folder {self._folder} could not be formatted: {_last_lines(answer)}"
            raise BrokerStartError(msg)

    def _wait_until_ready(self, ports: Ports, log_start: int) -> None:
        give_up_at = time.monotonic() + _START_TIMEOUT_S
        admin = AdminClient({"bootstrap.servers": f"{HOST}:{ports.inner}", "log_level": 0})
        while True:
            if self._process is None or self._process.poll() is not None:
                raise self._start_error(ports, log_start)
            # A listener that answers is not enough: on a taken port it would be a stranger's.
            if "Kafka Server started" in _text_from(self.server_log, log_start):
                try:
                    admin.list_topics(timeout=_POLL_S * 10)
                except KafkaException:
                    pass
                else:
                    return
            if time.monotonic() > give_up_at:
                msg = f"the broker did not answer within {_START_TIMEOUT_S:g} s, see {self.server_log}"
                raise BrokerStartError(msg)
            time.sleep(_POLL_S)

    def _start_error(self, ports: Ports, log_start: int) -> BrokerStartError:
        text = _text_from(self.server_log, log_start) + _text_from(self._folder / "broker.out", 0)
        if any(words in text for words in _PORT_TAKEN):
            used = f"{ports.clients}, {ports.inner}, {ports.controller}"
            return PortTakenError(f"one of the ports {used} on {HOST} is taken: stop its owner or choose another port")
        return BrokerStartError(f"the broker ended at start; its last lines: {_last_lines(text)}")


def _free_ports(clients: int | None) -> Ports:
    # All three are held until all are chosen, so that they differ.
    sockets = [socket.socket() for _ in range(3)]
    try:
        for held in sockets:
            held.bind((HOST, 0))
        chosen = [int(held.getsockname()[1]) for held in sockets]
    finally:
        for held in sockets:
            held.close()
    return Ports(chosen[0] if clients is None else clients, chosen[1], chosen[2])


def _text_from(path: Path, start: int) -> str:
    try:
        with path.open("rb") as file:
            file.seek(start)
            return file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def _last_lines(text: str) -> str:
    # Without the frames of stack traces, which would push out what they explain.
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    return " | ".join(lines[-_QUOTED_LINES:]) or "none"
