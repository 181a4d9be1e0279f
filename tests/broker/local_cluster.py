"""A cluster of real Kafka brokers on this machine, to test leadership, replicas and crashes.

Each node is broker and controller in its own JVM, with its own data and its own plugin. Three of them keep a
quorum and the in-sync replicas that a write needs when one is killed. No node outlives this process.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from confluent_kafka.admin import AdminClient

from broker.errors import PortTakenError
from broker.local.local_broker import DEFAULT_USERS, PORT_ATTEMPTS
from broker.local.plugin_wait import wait_for_plugins
from broker.local.server_files import HOST, Ports, server_properties_of, write_log_settings, write_server_properties
from broker.local.server_process import Jvm, ServerProcess, free_ports, new_cluster_id, sasl_plain
from jvm.broker_jar import broker_jar
from jvm.jar_sets import ensure_jars, kafka_classpath

_NODES = 3
_HEAP_MB = 384
_LIMIT_S = 120.0
_T = TypeVar("_T")


class LocalCluster:
    """Starts all nodes on entering the context, stops them on leaving."""

    def __init__(
        self,
        data_folder: Path,
        users: Mapping[str, str] = DEFAULT_USERS,
        *,
        jars: Path | None = None,
        holders: Collection[int] = (),
        **server_properties: object,
    ) -> None:
        """Nothing starts before the context is entered."""
        self._folder = data_folder.resolve()
        self._users = dict(users)
        self._jars = jars
        self._holders = frozenset(holders)
        self._extra = {**_REPLICATED, **server_properties}
        self._servers = {node: ServerProcess(self._folder / f"node-{node}") for node in range(1, _NODES + 1)}
        self._cluster_id = new_cluster_id()
        self._ports: dict[int, Ports] = {}

    # Addresses, files and client settings

    @property
    def node_ids(self) -> tuple[int, ...]:
        return tuple(self._servers)

    @property
    def running(self) -> tuple[int, ...]:
        """Ids of the nodes whose process runs."""
        return tuple(node for node, server in self._servers.items() if server.pid is not None)

    @property
    def bootstrap_servers(self) -> str:
        """Addresses for the users (SASL/PLAIN), of all nodes."""
        return self._addresses(lambda ports: ports.clients)

    @property
    def admin_servers(self) -> str:
        """Addresses for admin clients: no password, principal `User:ANONYMOUS`, a super user."""
        return self._addresses(lambda ports: ports.inner)

    def pid(self, node_id: int) -> int | None:
        """Process id of a node's JVM, None while it does not run."""
        return self._servers[node_id].pid

    def folder(self, node_id: int) -> Path:
        """The folder of a node's files."""
        return self._servers[node_id].folder

    def wait_for_plugin(self, *node_ids: int) -> None:
        """Wait until the plugin of each node, or of these, has reported since the node's start."""
        for node_id in node_ids or self.node_ids:
            wait_for_plugins(self.admin_config(), [node_id], self._servers[node_id].launched_ms, _LIMIT_S)

    def client_config(self, user: str) -> dict[str, str]:
        """Settings of confluent-kafka for one of the users; holds the password."""
        return sasl_plain(self.bootstrap_servers, self._users, user)

    def admin_config(self) -> dict[str, str]:
        """Settings of confluent-kafka for ourselves."""
        return {"bootstrap.servers": self.admin_servers}

    # Start and stop

    def __enter__(self) -> "LocalCluster":
        self.start_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop_all()

    def start_all(self) -> None:
        """Start all nodes side by side and wait until each answers."""
        ensure_jars(self._jars)
        for attempt in range(1, PORT_ATTEMPTS + 1):
            self._ports = dict(zip(self.node_ids, free_ports(len(self._servers)), strict=True))
            try:
                self._start(self.node_ids)
            except PortTakenError:
                self._ports = {}
                if attempt == PORT_ATTEMPTS:
                    raise
            else:
                return

    def stop_all(self) -> None:
        """Stop all nodes in good order, side by side."""
        _side_by_side(ServerProcess.stop, self._servers.values())

    def start(self, node_id: int, *, holds: bool | None = None) -> None:
        """Start a node that was stopped or killed: same ports, same data; wait until it answers."""
        given = self._holders
        if holds is not None:
            self._holders = given | {node_id} if holds else given - {node_id}
        try:
            self._start([node_id])
        finally:
            self._holders = given

    def change(self, **server_properties: object) -> None:
        """Change properties of the nodes that start from now on; None takes one back."""
        self._extra |= server_properties
        self._extra = {name: value for name, value in self._extra.items() if value is not None}

    def stop(self, node_id: int) -> None:
        """Stop a node in good order: it hands its leaderships over."""
        self._servers[node_id].stop()

    def kill(self, node_id: int) -> None:
        """SIGKILL a node, as a crash would."""
        self._servers[node_id].kill()

    def _start(self, node_ids: Sequence[int]) -> None:
        chosen = [self._servers[node] for node in node_ids]
        try:
            jvms = {node: self._write_files(node) for node in node_ids}
            _side_by_side(lambda node: self._servers[node].format(jvms[node], self._cluster_id), node_ids)
            for node in node_ids:
                self._servers[node].launch(jvms[node])
            _side_by_side(lambda node: self._servers[node].wait_until_ready(self._ports[node]), node_ids)
            self._await_all()
        except BaseException:
            # Leave no partial cluster behind, also on Ctrl-C.
            for server in chosen:
                server.kill()
            raise

    def _await_all(self) -> None:
        """Wait until the controller lists all nodes that run: a topic of three replicas needs three brokers."""
        running = {node for node, server in self._servers.items() if server.pid is not None}
        admin, give_up_at = AdminClient({**self.admin_config()}), time.monotonic() + _LIMIT_S
        while not running <= (found := admin.list_topics(timeout=_LIMIT_S).brokers.keys()):
            assert time.monotonic() < give_up_at, f"brokers {sorted(found)} of {sorted(running)} are there"
            time.sleep(0.1)

    def _write_files(self, node_id: int) -> Jvm:
        server = self._servers[node_id]
        server.folder.mkdir(parents=True, exist_ok=True)
        write_server_properties(
            server.properties,
            self._ports[node_id],
            self._users,
            server_properties_of(self._extra, holds=node_id in self._holders),
            node_id=node_id,
            controllers={node: ports.controller for node, ports in self._ports.items()},
        )
        log_option = f"-Dlog4j2.configurationFile={write_log_settings(server.folder)}"
        return Jvm(kafka_classpath(self._jars), log_option, (broker_jar(self._jars),), _HEAP_MB)

    def _addresses(self, port: Callable[[Ports], int]) -> str:
        return ",".join(f"{HOST}:{port(ports)}" for ports in self._ports.values())


_REPLICATED: dict[str, object] = {
    "default.replication.factor": _NODES,
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": _NODES,
    "transaction.state.log.replication.factor": _NODES,
    "transaction.state.log.min.isr": 2,
    "share.coordinator.state.topic.replication.factor": _NODES,
    "share.coordinator.state.topic.min.isr": 2,
    # Several JVMs share few cores here: 3 s, as for a single broker, would fence nodes that only wait for a core.
    "broker.session.timeout.ms": 9000,
    "replica.lag.time.max.ms": 10_000,
    # So that a node that came back leads again only when a test says so.
    "auto.leader.rebalance.enable": "false",
    "controlled.shutdown.enable": "true",
    "log.cleaner.dedupe.buffer.size": 4 * 1024 * 1024,
    "num.network.threads": 2,
    "num.io.threads": 4,
}


def _side_by_side(work: Callable[[_T], None], items: Iterable[_T]) -> None:
    """Do it for all of them at once; the first error is raised after all have ended."""
    with ThreadPoolExecutor() as pool:
        # All are awaited: none of them may still be starting a process when the others are cleaned up.
        running = [pool.submit(work, item) for item in items]
    for done in running:
        done.result()
