"""Writes a local broker's configuration."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from broker.errors import LocalBrokerError
from wire.holds import HOLD_AUTHORIZER
from wire.plugin_reports import REPORTER_CLASS

HOST = "127.0.0.1"

_USER_NAME = re.compile(r"[A-Za-z0-9_-]+")

# These settings suit a laptop and a single replica.
_DEFAULTS: dict[str, object] = {
    "process.roles": "broker,controller",
    "inter.broker.listener.name": "INNER",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,INNER:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    # Users of the inner listener are anonymous.
    "super.users": "User:ANONYMOUS;User:admin",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "default.replication.factor": 1,
    "min.insync.replicas": 1,
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 4,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    # The controller counts a crashed broker as up for this long; the default is 9 s.
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
    # The default takes 128 MB of the 512 MB heap.
    "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
}

_SERVER_LOG = """\
Configuration:
  Appenders:
    File:
      name: KafkaAppender
      fileName: "${sys:kafka.logs.dir}/server.log"
      PatternLayout:
        pattern: "[%d] %p %m (%c)%n"
  Loggers:
    Root:
      level: INFO
      AppenderRef:
        ref: KafkaAppender
        level: INFO
"""


@dataclass(frozen=True)
class Ports:
    """TCP ports on the loopback address."""

    clients: int
    inner: int
    controller: int


def write_log_settings(folder: Path) -> Path:
    """Write the log4j2 file. Return its path."""
    file = folder / "log4j2.yaml"
    file.write_text(_SERVER_LOG, encoding="utf-8")
    return file


def write_server_properties(
    path: Path,
    ports: Ports,
    users: Mapping[str, str],
    extra: Mapping[str, object],
    *,
    node_id: int = 1,
    controllers: Mapping[int, int] | None = None,
) -> None:
    """Write server.properties, which only its owner can read.

    `extra` overrides our properties. `controllers` maps node ids to controller ports.
    """
    voters = controllers or {node_id: ports.controller}
    properties = {
        **_DEFAULTS,
        "node.id": node_id,
        "log.dirs": path.parent / "data",
        "listeners": f"CLIENTS://{HOST}:{ports.clients},INNER://{HOST}:{ports.inner},CONTROLLER://{HOST}:{ports.controller}",
        "advertised.listeners": f"CLIENTS://{HOST}:{ports.clients},INNER://{HOST}:{ports.inner}",
        "controller.quorum.voters": ",".join(f"{voter}@{HOST}:{port}" for voter, port in voters.items()),
        "listener.name.clients.plain.sasl.jaas.config": _plain_login(users),
        **extra,
    }
    path.touch(mode=0o600)
    path.write_text("".join(f"{key}={_escaped(str(value))}\n" for key, value in properties.items()), encoding="ascii")


def server_properties_of(properties: Mapping[str, object], *, holds: bool) -> dict[str, object]:
    """Return the properties under Kafka's names, and those that load the plugin and, with `holds`, the authorizer."""
    loaded: dict[str, object] = {"metric.reporters": f"org.apache.kafka.common.metrics.JmxReporter,{REPORTER_CLASS}"}
    if holds:
        loaded["authorizer.class.name"] = HOLD_AUTHORIZER
    return loaded | {name.replace("_", "."): value for name, value in properties.items()}


def _plain_login(users: Mapping[str, str]) -> str:
    for name in users:
        if not _USER_NAME.fullmatch(name):
            msg = f"user name {name!r} is not supported: use letters, digits, '_' and '-' only"
            raise LocalBrokerError(msg)
    quoted = {name: password.replace("\\", "\\\\").replace('"', '\\"') for name, password in users.items()}
    entries = "".join(f' user_{name}="{password}"' for name, password in quoted.items())
    return f"org.apache.kafka.common.security.plain.PlainLoginModule required{entries};"


def _escaped(value: str) -> str:
    # Java properties are Latin-1 with backslash escapes.
    units = memoryview(value.encode("utf-16")[2:]).cast("H")
    return "".join(chr(unit) if 32 <= unit < 127 and unit != ord("\\") else f"\\u{unit:04x}" for unit in units)
