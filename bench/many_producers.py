"""Many idempotent producers over one connection, by requests of our own.

Client libraries would need threads and a connection per producer, and their CPU time would hide the broker's.
"""

import socket
import struct
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka.record.util import calc_crc32c

from bench.loads import BenchError

_PRODUCE, _INIT_PRODUCER_ID = 0, 22
_PRODUCE_VERSION, _INIT_VERSION = 7, 1
_CLIENT_ID = "many-producers"
_TIMEOUT_S = 60.0
_TIMEOUT_MS = 30_000
_RETRIABLE = (14, 15, 16)
"""Error codes of a broker that has no block of producer ids yet."""
_MAGIC = 2
_RECORD = bytes((14, 0, 0, 0, 1, 2)) + b"v" + b"\0"
"""A record: its length as a varint (7), attributes, time and offset (0), no key, the value `v`, no headers."""


def batch_of(producer_id: int, sequence: int, at_ms: int) -> bytes:
    """Return a record batch (format 2) with one record of a producer."""
    checked = struct.pack(">hiqqqhii", 0, 0, at_ms, at_ms, producer_id, 0, sequence, 1) + _RECORD
    # The length counts the bytes after itself: leader epoch, format, checksum and the checked part.
    head = struct.pack(">qiibI", 0, 9 + len(checked), -1, _MAGIC, calc_crc32c(checked))
    return head + checked


class Answer(NamedTuple):
    """An answer: the seconds since its request, and the producer id that the broker gave; None if it gave none."""

    is_produce: bool
    took_s: float
    producer_id: int | None = None


@dataclass
class Rotation:
    """Producers that take turns, and the sequence number of each one's next batch on its partition.

    A producer keeps its partition. A producer that the broker has just given an id replaces the one whose turn it is.
    """

    sequences: dict[int, int]
    partitions: int
    waiting: deque[int] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self._turns = deque(self.sequences)

    def take(self) -> tuple[int, int, int]:
        """Return the id, sequence number and partition of the next batch."""
        producer_id = self._turns.popleft()
        if self.waiting:
            self.sequences.pop(producer_id)
            producer_id = self.waiting.popleft()
            self.sequences[producer_id] = 0
        self._turns.append(producer_id)
        sequence = self.sequences[producer_id]
        self.sequences[producer_id] = sequence + 1
        return producer_id, sequence, producer_id % self.partitions


class Connection:
    """A connection that sends requests without waiting, and reads the answers in order."""

    def __init__(self, host: str, port: int, topic: str) -> None:
        self._topic = _string(topic)
        self._socket = socket.create_connection((host, port), timeout=_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb")
        self._sent: deque[tuple[int, float]] = deque()
        self._number = 0

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self._answers.close()
        self._socket.close()

    @property
    def outstanding(self) -> int:
        """Number of requests without an answer."""
        return len(self._sent)

    def produce(self, batches: dict[int, bytes]) -> None:
        """Send a batch to each of some partitions."""
        parts = b"".join(
            struct.pack(">ii", partition, len(batch)) + batch for partition, batch in sorted(batches.items())
        )
        body = struct.pack(">hhii", -1, -1, _TIMEOUT_MS, 1) + self._topic + struct.pack(">i", len(batches)) + parts
        self._send(_PRODUCE, _PRODUCE_VERSION, body)

    def ask_for_id(self) -> None:
        """Ask for a new producer id."""
        self._send(_INIT_PRODUCER_ID, _INIT_VERSION, _string(None) + struct.pack(">i", _TIMEOUT_MS))

    def receive(self) -> Answer:
        """Read the next answer.

        Raises:
            BenchError: If the broker refused the request.
        """
        kind, sent_at = self._sent.popleft()
        (size,) = struct.unpack(">i", self._read(4))
        answer = self._read(size)[4:]
        took_s = time.perf_counter() - sent_at
        if kind == _INIT_PRODUCER_ID:
            _, error, producer_id, _ = struct.unpack(">ihqh", answer)
            if error in _RETRIABLE:
                return Answer(is_produce=False, took_s=took_s)
            _require_none(error)
            return Answer(is_produce=False, took_s=took_s, producer_id=producer_id)
        for error in self._errors(answer):
            _require_none(error)
        return Answer(is_produce=True, took_s=took_s)

    def _send(self, kind: int, version: int, body: bytes) -> None:
        self._number += 1
        request = struct.pack(">hhi", kind, version, self._number) + _string(_CLIENT_ID) + body
        self._sent.append((kind, time.perf_counter()))
        self._socket.sendall(struct.pack(">i", len(request)) + request)

    def _read(self, size: int) -> bytes:
        found = self._answers.read(size)
        if len(found) < size:
            msg = "the broker closed the connection: see its server.log"
            raise BenchError(msg)
        return found

    def _errors(self, answer: bytes) -> Iterator[int]:
        # One topic; each partition has its number, error, offset, time and first offset.
        begin = 4 + len(self._topic) + 4
        return (error for _, error, _, _, _ in struct.iter_unpack(">ihqqq", answer[begin:-4]))


def _require_none(error: int) -> None:
    if error:
        msg = f"the broker refused a request with Kafka's error code {error}"
        raise BenchError(msg)


def _string(text: str | None) -> bytes:
    return struct.pack(">h", -1) if text is None else struct.pack(">h", len(text.encode())) + text.encode()
