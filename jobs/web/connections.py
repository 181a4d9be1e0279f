"""The console's connections: who says nothing, or reads nothing, is put out before those who ask for something.

uvicorn alone waits for ever for a request's headers, and its limit of connections refuses whoever comes last.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, cast

from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol


@dataclass
class Room:
    """The connections that are open, the oldest first.

    Attributes:
        most: So many in all.
        most_of_an_address: So many of one client address.
        request_s: Seconds within which a request has to come, from the connection or the answer before.
        answer_s: Seconds within which an answer has to be given and taken.
    """

    most: int = 200
    most_of_an_address: int = 40
    request_s: float = 10.0
    answer_s: float = 120.0
    connections: dict[PatientProtocol, str] = field(default_factory=dict)

    def enter(self, connection: PatientProtocol, address: str) -> None:
        """Let one in, and put another out if there is no room: of the address that has most, one that asks nothing."""
        counts = Counter(self.connections.values())
        if counts[address] >= self.most_of_an_address:
            self._put_out(address)
        elif len(self.connections) >= self.most:
            self._put_out(max(counts, key=lambda each: counts[each]))
        self.connections[connection] = address

    def leave(self, connection: PatientProtocol) -> None:
        """Take note that one is closed."""
        self.connections.pop(connection, None)

    def _put_out(self, address: str) -> None:
        of_it = [connection for connection, its in self.connections.items() if its == address]
        victim = next((connection for connection in of_it if not connection.is_asking), of_it[0])
        self.leave(victim)
        victim.transport.abort()


class PatientProtocol(H11Protocol):
    """A connection, with an end to patience."""

    def __init__(self, *arguments: Any, room: Room, **more: Any) -> None:
        """As uvicorn makes it, in a room."""
        super().__init__(*arguments, **more)
        self._room = room
        self._end: asyncio.TimerHandle | None = None

    @property
    def is_asking(self) -> bool:
        """Whether a request waits for its answer."""
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
        # First ours: the answer may make it read a request that has come meanwhile.
        self._wait(self._room.request_s)
        super().on_response_complete()
        if self.is_asking:
            self._wait(self._room.answer_s)

    def _wait(self, seconds: float) -> None:
        if self._end is not None:
            self._end.cancel()
        self._end = self.loop.call_later(seconds, self.transport.abort)
