"""Limits the console's connections, and evicts idle connections first.

uvicorn would wait forever for a request's headers, and would refuse new connections at a limit.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, cast

from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol


@dataclass
class Room:
    """The open connections, oldest first.

    Attributes:
        most_of_an_address: Maximum number of connections per client address.
        request_s: Maximum seconds until a request has arrived.
        answer_s: Maximum seconds until a request is answered.
    """

    most: int = 200
    most_of_an_address: int = 40
    request_s: float = 10.0
    answer_s: float = 120.0
    connections: "dict[PatientProtocol, str]" = field(default_factory=dict)

    def enter(self, connection: "PatientProtocol", address: str) -> None:
        """Add a connection. At a limit, evict another connection, preferably an idle one.

        At the total limit, the evicted connection is one of the address with the most connections. At the limit of
        `address`, it is one of `address`.
        """
        counts = Counter(self.connections.values())
        if counts[address] >= self.most_of_an_address:
            self._put_out(address)
        elif len(self.connections) >= self.most:
            self._put_out(max(counts, key=lambda each: counts[each]))
        self.connections[connection] = address

    def leave(self, connection: "PatientProtocol") -> None:
        """Remove a closed connection."""
        self.connections.pop(connection, None)

    def _put_out(self, address: str) -> None:
        of_it = [connection for connection, its in self.connections.items() if its == address]
        victim = next((connection for connection in of_it if not connection.is_asking), of_it[0])
        self.leave(victim)
        victim.transport.abort()


class PatientProtocol(H11Protocol):
    """A connection with timeouts."""

    def __init__(self, *arguments: Any, room: Room, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._room = room
        self._end: asyncio.TimerHandle | None = None

    @property
    def is_asking(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", transport))
        self._room.enter(self, self.client[0] if self.client else "")
        self._wait(self._room.request_s)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._end is not None:
            self._end.cancel()
        self._room.leave(self)
        super().connection_lost(exc)

    @override
    def data_received(self, data: bytes) -> None:
        was_asking = self.is_asking
        super().data_received(data)
        if self.is_asking and not was_asking:
            self._wait(self._room.answer_s)

    @override
    def on_response_complete(self) -> None:
        # Start this wait before super(), which may start a pipelined request.
        self._wait(self._room.request_s)
        super().on_response_complete()
        if self.is_asking:
            self._wait(self._room.answer_s)

    def _wait(self, seconds: float) -> None:
        if self._end is not None:
            self._end.cancel()
        self._end = self.loop.call_later(seconds, self.transport.abort)
