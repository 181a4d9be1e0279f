"""Writes lines in the format of the class in a broker, with consecutive numbers."""

import uuid
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from wire.broker_lines import LINE_FORMAT, AliveLine, BatchLine, InitLine, Line, StartLine, StopLine

NOON_MS = 1_790_000_000_000
ALICE = "User:alice"


class ClassLines:
    """A class in a broker: each method returns the next line of its run."""

    def __init__(self, broker_id: int = 1, at_ms: int = NOON_MS) -> None:
        self.broker_id, self.at_ms = broker_id, at_ms
        self.run, self.number = uuid.uuid4().hex, 0

    def start(self, **fields: Any) -> bytes:
        self.run, self.number = uuid.uuid4().hex, 0
        return self._state(StartLine, fields)

    def alive(self, **fields: Any) -> bytes:
        return self._state(AliveLine, fields)

    def stop(self, *, shutdown: bool, **fields: Any) -> bytes:
        return self._state(StopLine, {"shutdown": shutdown, **fields})

    def batch(self, producer_id: int, principal: str = ALICE, **fields: Any) -> bytes:
        line = BatchLine(
            number=self._next(),
            timestamp_ms=self.at_ms,
            broker_id=self.broker_id,
            principal=principal,
            producer_id=producer_id,
            producer_epoch=0,
            topic="orders",
            partition=0,
            address="10.0.0.7",
            client_id="app",
        )
        return encode(replace(line, **fields))

    def init(self, result_producer_id: int, principal: str = ALICE, **fields: Any) -> bytes:
        line = InitLine(
            number=self._next(),
            timestamp_ms=self.at_ms,
            broker_id=self.broker_id,
            principal=principal,
            address="10.0.0.7",
            error="NONE",
            client_id="app",
            result_producer_id=result_producer_id,
            result_producer_epoch=0,
        )
        return encode(replace(line, **fields))

    def pass_s(self, seconds: float) -> "ClassLines":
        """Let time pass without a line."""
        self.at_ms += round(seconds * 1000)
        return self

    def lose(self, lines: int = 1) -> "ClassLines":
        """Write lines that nobody will see."""
        self.number += lines
        return self

    def _state(self, kind: type[StartLine | AliveLine | StopLine], fields: dict[str, Any]) -> bytes:
        usual: dict[str, Any] = {
            "format": LINE_FORMAT,
            "class_version": "0.3.0",
            "kafka_version": "4.3.1",
            "tick_ms": 10_000,
        }
        return encode(kind(self._next(), self.at_ms, self.broker_id, self.run, **(usual | fields)))

    def _next(self) -> int:
        self.number += 1
        self.at_ms += 1
        return self.number


def encode(line: Line) -> bytes:
    return msgspec.json.encode(line)


def append(path: Path, *lines: bytes) -> None:
    """Append lines to a file, as the class does."""
    with path.open("ab") as file:
        file.write(b"".join(line + b"\n" for line in lines))
