"""Rule 1: the PRODUCE request that each handler thread of a broker is working on. Pure."""

import re

from broker.errors import LogLineError
from broker.log.log_layout import parse_line
from broker.log.log_lines import CUT, ProduceRequest, parse_produce

# What follows `apiKey=PRODUCE, ` in an unambiguous line; all others are decoded.
_PLAIN = re.compile(
    rb"apiVersion=\d+, clientId=([A-Za-z0-9._-]*), correlationId=-?\d+, headerVersion=\d+\) -- "
    rb'(\{[^{}()"\\;]*\}) from connection [A-Za-z0-9.:-]+;securityProtocol:[A-Z_]+,'
    rb'principal:([A-Za-z0-9:.,=@/ _-]+)"\}'
)


class ThreadRequests:
    """Last PRODUCE line by thread, parsed lazily: requests without producer ids never need it."""

    def __init__(self) -> None:
        self._lines: dict[bytes, tuple[bytes, int]] = {}
        # Parsed requests, and the partitions whose batch has arrived.
        self._asked: dict[bytes, tuple[ProduceRequest, list[tuple[str, int]]]] = {}
        self._bad_lines: list[bytes] = []

    def arrived(self, thread: bytes, line: bytes, plain_from: int = -1) -> None:
        """Add a PRODUCE line.

        Args:
            thread: that wrote it.
            line: the whole line.
            plain_from: offset of `apiVersion=` if all before it has been matched; otherwise the line is decoded.
        """
        self._lines[thread] = (line, plain_from)

    def forget_all(self) -> None:
        """Forget all requests: lines are missing, and their threads are unknown."""
        self._lines.clear()
        self._asked.clear()

    def ended(self, thread: bytes) -> None:
        """Forget the request of a thread: it works on something else now."""
        self._lines.pop(thread, None)
        self._asked.pop(thread, None)

    def take(self, thread: bytes, topic: str, partition: int) -> ProduceRequest | None:
        """The request that a batch belongs to; None if it is not the thread's current one.

        A request has one batch per partition. A second one is another's, verified earlier and appended now.
        """
        key = (topic, partition)
        line = self._lines.pop(thread, None)
        if line is None:
            asked = self._asked.get(thread)
            if asked is None or key in asked[1]:
                return None
        else:
            request = read_produce(*line)
            if request is None:
                self._bad_lines.append(line[0])
                self._asked.pop(thread, None)
                return None
            asked = self._asked[thread] = (request, [])
        if not asked[0].names(topic, partition):
            return None
        asked[1].append(key)
        return asked[0]

    def take_bad_lines(self) -> list[bytes]:
        """Remove and return the truncated or damaged lines found so far."""
        bad, self._bad_lines = self._bad_lines, []
        return bad

    def lines(self) -> list[bytes]:
        """Lines not parsed yet."""
        return [line for line, _ in self._lines.values()]


def read_produce(line: bytes, plain_from: int = -1) -> ProduceRequest | None:
    """Parse a PRODUCE line, without decoding it where that is safe; None if it is damaged."""
    plain = _PLAIN.fullmatch(line, plain_from) if plain_from >= 0 else None
    if plain is not None:
        client_id, body, principal = (group.decode() for group in plain.groups())
        return None if principal.endswith(CUT) else ProduceRequest(principal, client_id, body)
    try:
        return parse_produce(parse_line(line).message)
    except LogLineError:
        return None
