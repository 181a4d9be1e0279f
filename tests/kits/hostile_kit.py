"""Requests that no client library sends, over one connection of a user."""

import socket
import struct
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from kafka.record.default_records import DefaultRecordBatchBuilder

from broker.local.local_broker import LocalBroker
from tests.broker.local_cluster import LocalCluster
from tests.kits.broker_kit import LIMIT_S, events_of, wait_until

_PRODUCE, _INIT_PRODUCER_ID = 0, 22
_SASL_HANDSHAKE, _SASL_AUTHENTICATE = 17, 36


def batch(
    producer_id: int = -1, epoch: int = -1, *, transactional: bool = False, sequence: int = -1, zeros: int = 0
) -> bytes:
    """A batch of one record; without a producer id it is a plain one.

    `zeros` is how many bytes a broker has to inflate.
    """
    if producer_id >= 0:
        epoch, sequence = max(epoch, 0), max(sequence, 0)
    builder = DefaultRecordBatchBuilder(2, bool(zeros), transactional, producer_id, epoch, sequence, 1 << 20)
    builder.append(0, timestamp=1, key=None, value=bytes(zeros) or b"v", headers=[])
    return bytes(builder.build())


class Hostile:
    """One connection of a user, for requests of its own making."""

    def __init__(
        self,
        broker: LocalBroker | LocalCluster,
        user: str,
        client_id: str = "app",
        *,
        source: str = "127.0.0.1",
        node: int = 1,
    ) -> None:
        host, _, port = broker.bootstrap_servers.split(",")[node - 1].partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=LIMIT_S, source_address=(source, 0))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._number = 0
        self.client_id = client_id
        try:
            self._authenticate(user, broker.client_config(user)["sasl.password"])
        except BaseException:
            self._socket.close()
            raise

    def _authenticate(self, user: str, password: str) -> None:
        self._ask(_SASL_HANDSHAKE, 1, _string("PLAIN"))
        token = f"\0{user}\0{password}".encode()
        answer = self._ask(_SASL_AUTHENTICATE, 0, struct.pack(">i", len(token)) + token)
        assert answer[:2] == b"\0\0", answer

    def __enter__(self) -> "Hostile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def init(self, transactional_id: str | None = None, client_id: str | None = None) -> tuple[int, int, int]:
        """Error, producer id and epoch of an answer to INIT_PRODUCER_ID."""
        if client_id is not None:
            self.client_id = client_id
        answer = self._ask(_INIT_PRODUCER_ID, 1, _string(transactional_id) + struct.pack(">i", 60_000))
        return struct.unpack(">hqh", answer[4:16])

    def producer_id(self, transactional_id: str | None = None, client_id: str | None = None) -> int:
        got: list[tuple[int, int, int]] = []

        def is_there() -> bool:
            got.append(self.init(transactional_id, client_id))
            return got[-1][0] == 0

        wait_until(is_there, f"a producer id for {transactional_id}")
        return got[-1][1]

    def produce(self, topic: str, records: bytes, **options: Any) -> None:
        self.send_produce(topic, records, **options)
        self.receive()

    def send_produce(
        self,
        topic: str,
        records: bytes,
        *,
        more: Sequence[str] = (),
        transactional_id: str | None = None,
        partition: int = 0,
    ) -> None:
        others = [_to_partitions(name, {}) for name in more]
        self._send_parts(transactional_id, [*others, _to_partitions(topic, {partition: records})])

    def produce_together(self, transactional_id: str | None, to: Sequence[str], batches: Sequence[bytes]) -> None:
        parts = [_to_partitions(topic, {0: records}) for topic, records in zip(to, batches, strict=True)]
        self._send_parts(transactional_id, parts)
        self.receive()

    def produce_to_partitions(self, topic: str, batches: Sequence[bytes]) -> None:
        self.send_to_partitions(topic, batches)
        self.receive()

    def send_to_partitions(self, topic: str, batches: Sequence[bytes]) -> None:
        """Send a batch to each of a topic's first partitions in one request."""
        self._send_parts(None, [_to_partitions(topic, dict(enumerate(batches)))])

    def _send_parts(self, transactional_id: str | None, parts: Sequence[bytes]) -> None:
        self._send(
            _PRODUCE, 7, _string(transactional_id) + struct.pack(">hii", -1, 30_000, len(parts)) + b"".join(parts)
        )

    def produce_tagged(self, topic: str, records: bytes, tag: bytes) -> None:
        """Send a batch in a request with a field in its header that no broker knows, and keeps as it is."""
        parts = struct.pack(">i", 0) + _uvarint(len(records) + 1) + records
        name = topic.encode()
        body = _uvarint(0) + struct.pack(">hi", -1, 30_000) + _uvarint(2) + _uvarint(len(name) + 1) + name
        body += _uvarint(2) + parts + bytes(3)
        self._send(_PRODUCE, 9, body, _uvarint(1) + _uvarint(99) + _uvarint(len(tag)) + tag)
        self.receive()

    def receive(self) -> bytes:
        size = struct.unpack(">i", self._read(4))[0]
        return self._read(size)[4:]

    def _ask(self, api_key: int, version: int, body: bytes) -> bytes:
        self._send(api_key, version, body)
        return self.receive()

    def _send(self, api_key: int, version: int, body: bytes, tags: bytes = b"") -> None:
        self._number += 1
        header = struct.pack(">hhi", api_key, version, self._number) + _string(self.client_id) + tags
        self._socket.sendall(struct.pack(">i", len(header) + len(body)) + header + body)

    def _read(self, size: int) -> bytes:
        parts = []
        while size:
            part = self._socket.recv(min(size, 1 << 20))
            assert part, "the broker closed the connection"
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def principals(broker: LocalBroker, producer_ids: Mapping[int, str] | Sequence[int]) -> dict[int, set[str]]:
    """Whom the events name, by PID, once each PID has an event."""
    found: dict[int, set[str]] = {producer_id: set() for producer_id in producer_ids}
    for event in events_of(broker, *producer_ids):
        found[event.producer_id].add(event.principal)
    return found


def giant_topics(count: int, length: int) -> list[str]:
    """Names of topics that are not there: each character takes six in an escaped line."""
    return [f"{number:06d}" + "\1" * (length - 6) for number in range(count)]


def _to_partitions(topic: str, batches: Mapping[int, bytes]) -> bytes:
    """What a PRODUCE request has of a topic; of none, an empty batch for partition 0."""
    parts = [struct.pack(">ii", number, len(records)) + records for number, records in (batches or {0: b""}).items()]
    return _string(topic) + struct.pack(">i", len(parts)) + b"".join(parts)


def _string(text: str | None) -> bytes:
    if text is None:
        return struct.pack(">h", -1)
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def _uvarint(number: int) -> bytes:
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])
