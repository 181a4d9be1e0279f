"""Sends INIT_PRODUCER_ID requests to a real broker that no client library sends."""

import socket
import struct
from types import TracebackType
from typing import Any

from kafka.protocol.producer import InitProducerIdRequest, InitProducerIdResponse

from tests.kits.broker_kit import wait_until
from tests.kits.init_rules_kit import InitDecision, InitRequest

_VERSION = 4
_ERRORS = {
    -1: "UNKNOWN_SERVER_ERROR",
    0: "NONE",
    14: "COORDINATOR_LOAD_IN_PROGRESS",
    15: "COORDINATOR_NOT_AVAILABLE",
    16: "NOT_COORDINATOR",
    42: "INVALID_REQUEST",
    47: "INVALID_PRODUCER_EPOCH",
    49: "INVALID_PRODUCER_ID_MAPPING",
    50: "INVALID_TRANSACTION_TIMEOUT",
    51: "CONCURRENT_TRANSACTIONS",
    90: "PRODUCER_FENCED",
}
_NOT_YET = {"COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS"}


class InitClient:
    """One connection without a password: `User:ANONYMOUS`."""

    def __init__(self, address: str, client_id: str = "init-client") -> None:
        host, _, port = address.partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        self._client_id = client_id
        self._number = 0

    def __enter__(self) -> "InitClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def ask(self, request: InitRequest, timeout_ms: int = 60_000) -> InitDecision:
        """Ask once; the answer has no state, which stays with the broker."""
        self.send(request, timeout_ms)
        return self.receive()

    def ask_until_ready(self, request: InitRequest) -> InitDecision:
        answers: list[InitDecision] = []

        def is_answered() -> bool:
            answers.append(self.ask(request))
            return answers[-1].error not in _NOT_YET

        wait_until(is_answered, f"an answer to {request}")
        return answers[-1]

    def send(self, request: InitRequest, timeout_ms: int = 60_000) -> None:
        self._number += 1
        message: Any = InitProducerIdRequest(
            transactional_id=request.transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
        )
        message.with_header(self._number, self._client_id)
        self._socket.sendall(message.encode(version=_VERSION, header=True, framed=True))

    def receive(self) -> InitDecision:
        (size,) = struct.unpack(">i", self._read(4))
        answer: Any = InitProducerIdResponse.decode(self._read(size), version=_VERSION, header=True)
        return InitDecision(_ERRORS[answer.error_code], answer.producer_id, answer.producer_epoch)

    def _read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            part = self._socket.recv(size - len(found))
            assert part, "the broker closed the connection"
            found += part
        return found
