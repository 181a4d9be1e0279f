"""A real single-node Kafka broker.

A SASL/PLAIN listener serves users, and a plaintext listener serves admin clients. The JVM ends with this process, even
on SIGKILL (see `jvm.watchdog`).
"""

from collections.abc import Mapping
from pathlib import Path

from broker.errors import LocalBrokerError, PortTakenError
from broker.local.plugin_wait import wait_for_plugins
from broker.local.server_files import (
    HOST,
    Ports,
    server_properties_of,
    write_log_settings,
    write_server_properties,
)
from broker.local.server_process import Jvm, ServerProcess, free_ports, new_cluster_id, sasl_plain
from jvm.broker_jar import broker_jar
from jvm.jar_sets import ensure_jars, kafka_classpath

DEFAULT_USERS = {"alice": "alice-secret", "mallory": "mallory-secret", "admin": "admin-secret"}
"""Users of a demo broker. The passwords are not secret, because the broker listens only on the loopback address."""

BROKER_ID = 1
PLUGIN_TIMEOUT_S = 120.0

# Another process may bind a free port before the broker does.
PORT_ATTEMPTS = 5


class LocalBroker(ServerProcess):
    """A Kafka broker with the plugin, which runs in a `with` block.

    Args:
        data_folder: The broker's folder, perhaps of an earlier run.
        users: Passwords by user name.
        holds: Whether to load `pidquota.HoldAuthorizer`.
        port: The SASL listener's port.
        server_properties: Properties whose names have `_` instead of `.`.
    """

    def __init__(
        self,
        data_folder: Path,
        users: Mapping[str, str] = DEFAULT_USERS,
        *,
        jars: Path | None = None,
        holds: bool = False,
        port: int | None = None,
        **server_properties: object,
    ) -> None:
        super().__init__(data_folder.resolve())
        self.broker_id = BROKER_ID
        self._users = dict(users)
        self._jars = jars
        self._port = port
        self._extra = server_properties_of(server_properties, holds=holds)
        self._ports: Ports | None = None

    @property
    def bootstrap_servers(self) -> str:
        """Address for users (SASL/PLAIN)."""
        return f"{HOST}:{self._known_ports().clients}"

    @property
    def admin_servers(self) -> str:
        """Address for admin clients, which act as the super user `User:ANONYMOUS`."""
        return f"{HOST}:{self._known_ports().inner}"

    def client_config(self, user: str) -> dict[str, str]:
        """Return a user's confluent-kafka settings."""
        return sasl_plain(self.bootstrap_servers, self._users, user)

    def admin_config(self) -> dict[str, str]:
        """Return an admin client's confluent-kafka settings."""
        return {"bootstrap.servers": self.admin_servers}

    def __enter__(self) -> "LocalBroker":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the broker, and wait until it is ready."""
        if self.pid is not None:
            msg = f"the broker is already running (process {self.pid}): stop it first"
            raise LocalBrokerError(msg)
        self.folder.mkdir(parents=True, exist_ok=True)
        ensure_jars(self._jars)
        if self._ports is not None:
            self._start_on(self._ports)
            return
        for attempt in range(1, PORT_ATTEMPTS + 1):
            (free,) = free_ports()
            ports = free if self._port is None else Ports(self._port, free.inner, free.controller)
            try:
                self._start_on(ports)
            except PortTakenError:
                if attempt == PORT_ATTEMPTS or self._port is not None:
                    raise
            else:
                self._ports = ports
                return

    def wait_for_plugin(self, timeout_s: float = PLUGIN_TIMEOUT_S) -> None:
        """Wait until the plugin's topics exist, and the plugin has reported since the broker's start.

        Raises LocalBrokerError after the timeout.
        """
        wait_for_plugins(self.admin_config(), [self.broker_id], self.launched_ms, timeout_s)

    def _known_ports(self) -> Ports:
        if self._ports is None:
            msg = "the broker was not started, so it has no address: use it inside `with LocalBroker(...)`"
            raise LocalBrokerError(msg)
        return self._ports

    def _java(self) -> Jvm:
        log_option = f"-Dlog4j2.configurationFile={write_log_settings(self.folder)}"
        return Jvm(kafka_classpath(self._jars), log_option, (broker_jar(self._jars),))

    def _start_on(self, ports: Ports) -> None:
        write_server_properties(self.properties, ports, self._users, self._extra)
        jvm = self._java()
        self.format(jvm, new_cluster_id())
        self.launch(jvm)
        self.wait_until_ready(ports)
