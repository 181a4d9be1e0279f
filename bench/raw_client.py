"""A client with many producer ids on one connection. Libraries would need a thread for each."""

import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import closing

from kafka.record.util import calc_crc32c

from bench.kit import ORDERS, BenchError
from broker.local.local_broker import LocalBroker

_PRODUCE, _HANDSHAKE, _INIT_PRODUCER_ID, _AUTHENTICATE = 0, 17, 22, 36
_VERSIONS = {_PRODUCE: 7, _HANDSHAKE: 1, _INIT_PRODUCER_ID: 1, _AUTHENTICATE: 0}
_TIMEOUT_MS, _PAUSE_S = 30_000, 0.01
_RETRIABLE = (14, 15, 16)
"""Error codes of a broker that has no block of producer ids yet, or that holds the user."""
_RECORD = bytes((14, 0, 0, 0, 1, 2)) + b"v" + b"\0"
"""A record: its length as a varint (7), attributes, time and offset (0), no key, the value `v`, no headers."""


def batch_of(producer_id: int, sequence: int) -> bytes:
    """Return a record batch (format 2) with one record of a producer."""
    now_ms = time.time_ns() // 1_000_000
    checked = struct.pack(">hiqqqhii", 0, 0, now_ms, now_ms, producer_id, 0, sequence, 1) + _RECORD
    # The length counts the bytes after itself: leader epoch, format, checksum and the checked part.
    return struct.pack(">qiibI", 0, 9 + len(checked), -1, 2, calc_crc32c(checked)) + checked


class Connection:
    """A connection that sends requests without waiting, and reads the answers in order."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=_TIMEOUT_MS / 1000)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb")
        # Kind and time of each request without an answer.
        self.sent = deque[tuple[int, float]]()

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def log_in(self, user: str, password: str) -> None:
        """Authenticate by SASL/PLAIN. The broker closes the connection if it refuses the password."""
        token = f"\0{user}\0{password}".encode()
        for kind, body in ((_HANDSHAKE, _string("PLAIN")), (_AUTHENTICATE, struct.pack(">i", len(token)) + token)):
            self._send(kind, body)
            self.sent.popleft()
            self._read()

    def produce(self, partition: int, batch: bytes) -> None:
        """Send a batch."""
        head = struct.pack(">hhii", -1, -1, _TIMEOUT_MS, 1) + _string(ORDERS)
        self._send(_PRODUCE, head + struct.pack(">iii", 1, partition, len(batch)) + batch)

    def ask_for_id(self) -> None:
        """Ask for a new producer id."""
        self._send(_INIT_PRODUCER_ID, struct.pack(">hi", -1, _TIMEOUT_MS))

    def receive(self) -> tuple[float, int | None]:
        """Read the next answer. Return the seconds since its request, and the producer id, or None after a batch.

        The id is -1 if the broker gave none. If the broker refused the request for another reason, raise BenchError.
        """
        kind, sent_at = self.sent.popleft()
        answer = self._read()
        took_s = time.perf_counter() - sent_at
        if kind == _PRODUCE:
            # The error follows the number of topics, the topic, the number of partitions, and the partition.
            (error,), producer_id = struct.unpack_from(">h", answer, len(_string(ORDERS)) + 12), None
        else:
            _, error, producer_id, _ = struct.unpack(">ihqh", answer)
        if error and error not in _RETRIABLE:
            msg = f"the broker refused a request with Kafka's error code {error}"
            raise BenchError(msg)
        return took_s, producer_id

    def _send(self, kind: int, body: bytes) -> None:
        request = struct.pack(">hhi", kind, _VERSIONS[kind], 0) + _string("raw-client") + body
        self.sent.append((kind, time.perf_counter()))
        self._socket.sendall(struct.pack(">i", len(request)) + request)

    def _read(self) -> bytes:
        """Return the next answer without its correlation id."""
        size = self._answers.read(4)
        answer = self._answers.read(int.from_bytes(size, "big"))
        if not answer:
            msg = "the broker closed the connection: see its server.log"
            raise BenchError(msg)
        return answer[4:]


def flood(
    broker: LocalBroker, user: str, rate: float, delivered: Callable[[], object], is_over: threading.Event
) -> None:
    """Ask for `rate` new PIDs a second as a user, and use each once, until an event."""
    with closing(Connection(broker.bootstrap_servers)) as connection:
        connection.log_in(user, broker.client_config(user)["sasl.password"])
        asked, begin = 0, time.monotonic()
        while not is_over.wait(_PAUSE_S):
            for _ in range(int((time.monotonic() - begin) * rate) - asked):
                connection.ask_for_id()
                asked += 1
            while connection.sent:
                _, producer_id = connection.receive()
                if producer_id is None:
                    delivered()
                elif producer_id >= 0:
                    connection.produce(0, batch_of(producer_id, sequence=0))


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()
