"""Joins requests for producer ids and their answers: who was handed which id. Pure.

Without a transactional id the answer comes on the request's thread, before the thread's next request; with one it may
come on any thread, and repeats the id. The client id must agree too. A request that was denied or made no sense gets no
answer line: it is forgotten after a minute of the log. Where requests of several principals fit an answer, nobody is
bound. The same holds if another's request that fits may have been there: one that was given up within the last minute,
or, in the minute after lines were lost, one that nobody saw.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import count

from broker.log.log_lines import InitProducerIdRequest, InitProducerIdResult, parse_init_result
from wire.records import Binding, ProducerInit

MAX_AGE_MS = 60_000
"""How long a request waits for its answer, in time of the log; a broker answers in milliseconds."""

MAX_BYTES = 16 * 1024 * 1024
"""Of all requests that wait; the oldest go first."""

# Whose requests were given up; 150 bytes each. Within a minute no broker refuses so many while another waits.
_MAX_GIVEN_UP = 50_000
# With delimiters in a client's text: an answer that has them too is compared with each.
_MAX_CRAFTED = 16
# What a request takes beside its texts.
_BASE_BYTES = 1_000
# The epoch of a binding that crafted texts made ambiguous: any plain answer about the same id is newer.
_DOUBTFUL_EPOCH = -1
# Lines that are kept over a restart of the tap: those of the last moment, whose answers are still to come.
_MAX_KEPT_BYTES = 16 * 1024
_MAX_KEPT_MS = 5_000

_Key = tuple[str, str | None, bytes]


@dataclass(frozen=True)
class InitAnswer:
    """An answer with its request.

    Attributes:
        request: as it arrived.
        result: what was handed out, or why nothing was.
        transactional_id: of the request, None for a merely idempotent producer.
        doubtful: a client's texts allow more than one reading.
    """

    request: InitProducerIdRequest
    result: InitProducerIdResult
    transactional_id: str | None
    doubtful: bool

    def record(self, timestamp_ms: int, broker_id: int | None, *, repeated: bool) -> ProducerInit:
        """What goes to `producer-inits`."""
        request, result = self.request, self.result
        return ProducerInit(
            timestamp_ms,
            broker_id,
            request.principal,
            result.client_id,
            request.client_host,
            self.transactional_id,
            request.producer_id,
            request.producer_epoch,
            result.producer_id,
            result.producer_epoch,
            result.error,
            repeated,
        )

    def binding(self, timestamp_ms: int, broker_id: int | None) -> Binding | None:
        """Whose the id is from now on; None if none was handed out."""
        result = self.result
        if result.error != "NONE":
            return None
        epoch = _DOUBTFUL_EPOCH if self.doubtful else result.producer_epoch
        principal, client_id = self.request.principal, result.client_id
        return Binding(result.producer_id, epoch, principal, client_id, self.transactional_id, broker_id, timestamp_ms)


@dataclass(frozen=True)
class _Pending:
    number: int
    timestamp_ms: int
    thread: bytes
    line: bytes
    request: InitProducerIdRequest
    # If it can be read in one way only.
    key: _Key | None
    # Else the lengths of client id and transactional id in each of them.
    lengths: frozenset[tuple[int, int]]

    @property
    def bytes(self) -> int:
        return _BASE_BYTES + len(self.line) + 2 * len(self.request.text) + 100 * len(self.lengths)

    @property
    def is_plain(self) -> bool:
        """Its answer comes on its thread, or never."""
        return self.key is not None and self.key[1] is None


class PendingInits:
    """The requests of one broker."""

    def __init__(self) -> None:
        self._numbers = count()
        self._all: dict[int, _Pending] = {}
        self.held_bytes = 0
        """What all of them take, as far as it can be told."""
        self._on_thread: dict[bytes, _Pending] = {}
        # By principal, then in the order of arrival.
        self._crafted: dict[int, _Pending] = {}
        self._by_key: dict[_Key, dict[str, dict[int, _Pending]]] = {}
        # By a hash of client id and transactional id: of whom, as a hash too (None: of several), and until when.
        self._given_up: dict[int, tuple[int | None, int]] = {}
        self._unsure_until_ms: float = 0

    def lines(self) -> list[bytes]:
        """The lines of the newest, for the next run of the tap."""
        found: list[bytes] = []
        left, newest_ms = _MAX_KEPT_BYTES, None
        for pending in reversed(self._all.values()):
            newest_ms = pending.timestamp_ms if newest_ms is None else newest_ms
            left -= len(pending.line)
            if left < 0 or pending.timestamp_ms < newest_ms - _MAX_KEPT_MS:
                break
            found.append(pending.line)
        return found[::-1]

    def unsure_until_ms(self, kept: int) -> int:
        """How long the next run of the tap has to be unsure, if it keeps so many of the newest requests."""
        newest_ms = next(reversed(self._all.values())).timestamp_ms if self._all else 0
        recent = sum(pending.timestamp_ms >= newest_ms - _MAX_KEPT_MS for pending in self._all.values())
        until_ms = newest_ms + MAX_AGE_MS if kept < recent else 0
        return max(until_ms, 0 if math.isinf(self._unsure_until_ms) else int(self._unsure_until_ms))

    def be_unsure(self, until_ms: float) -> None:
        """Set until when an answer may be that of a request which nobody saw, in time of the log."""
        self._unsure_until_ms = until_ms

    def forget_all(self, unsure_until_ms: float = 0) -> None:
        """Lines are missing: until then, the next answer may be that of a request which nobody saw."""
        self._unsure_until_ms = max(self._unsure_until_ms, unsure_until_ms)
        self._all.clear()
        self._on_thread.clear()
        self._crafted.clear()
        self._by_key.clear()
        self.held_bytes = 0

    def abandon(self, thread: bytes) -> None:
        """The thread works on something else: what it did not answer by now, it does not answer."""
        before = self._on_thread.pop(thread, None)
        if before is not None and before.is_plain and before.number in self._all:
            self._drop(before)

    def asked(self, thread: bytes, timestamp_ms: int, line: bytes, request: InitProducerIdRequest) -> None:
        """Note a request that arrived."""
        self.abandon(thread)
        self._expire(timestamp_ms)
        key: _Key | None = None
        lengths: set[tuple[int, int]] = set()
        for client_id, of_id in request.readings():
            key = None if lengths else (client_id, of_id, thread if of_id is None else b"")
            lengths.add((len(client_id), len("null" if of_id is None else of_id)))
        pending = _Pending(next(self._numbers), timestamp_ms, thread, line, request, key, frozenset(lengths))
        self._all[pending.number] = self._on_thread[thread] = pending
        self.held_bytes += pending.bytes
        if key is None:
            self._crafted[pending.number] = pending
        else:
            self._by_key.setdefault(key, {}).setdefault(request.principal, {})[pending.number] = pending
        if len(self._crafted) > _MAX_CRAFTED:
            self._give_up(next(iter(self._crafted.values())), timestamp_ms)
        while self.held_bytes > MAX_BYTES:
            self._give_up(next(iter(self._all.values())), timestamp_ms)

    def answered(self, thread: bytes, timestamp_ms: int, message: str) -> list[InitAnswer]:
        """Read an answer: with its request, which is forgotten.

        Empty if that was not seen, or if it may be that of several principals; several if a client crafted its texts.
        """
        self._expire(timestamp_ms)
        readings, found = 0, []
        for result in parse_init_result(message):
            readings += 1
            match = self._take(thread, timestamp_ms, result)
            if match is not None:
                found.append((result, *match))
        return [InitAnswer(request, result, of_id, readings > 1) for result, request, of_id in found]

    def _take(
        self, thread: bytes, now_ms: int, result: InitProducerIdResult
    ) -> tuple[InitProducerIdRequest, str | None] | None:
        """The oldest request that fits, if all that fit are of one principal."""
        client_id, of_id = result.client_id, result.transactional_id
        fitting: list[tuple[_Pending, str | None]] = []
        for key in ((client_id, of_id, b""), (client_id, None, thread)):
            if key[1] is not None or of_id == "null":
                by_principal = self._by_key.get(key, {})
                fitting += ((next(iter(requests.values())), key[1]) for requests in by_principal.values())
        for pending in self._crafted.values():
            if (len(client_id), len(of_id)) in pending.lengths:
                if pending.request.is_of(client_id, of_id):
                    fitting.append((pending, of_id))
                elif of_id == "null" and pending.thread == thread and pending.request.is_of(client_id, None):
                    fitting.append((pending, None))
        if len({pending.request.principal for pending, _ in fitting}) != 1:
            return None
        oldest, its_id = min(fitting, key=lambda each: each[0].number)
        self._drop(oldest)
        if now_ms < self._unsure_until_ms:
            return None
        owner, until_ms = self._given_up.get(hash((client_id, of_id)), (None, -1))
        if now_ms <= until_ms and owner != hash(oldest.request.principal):
            return None
        return oldest.request, its_id

    def _expire(self, now_ms: int) -> None:
        # Also after a clock that was set back it is a minute, and no day.
        self._unsure_until_ms = min(self._unsure_until_ms, now_ms + MAX_AGE_MS)
        while self._all:
            oldest = next(iter(self._all.values()))
            if oldest.timestamp_ms >= now_ms - MAX_AGE_MS:
                return
            # A clock that leaps makes a minute of a moment.
            self._give_up(oldest, now_ms)

    def _give_up(self, pending: _Pending, now_ms: int) -> None:
        """Drop a request whose answer may be still to come."""
        self._drop(pending)
        for client_id, of_id in pending.request.readings():
            key, owner = hash((client_id, "null" if of_id is None else of_id)), hash(pending.request.principal)
            before = self._given_up.pop(key, None)
            one = before is None or before[1] < now_ms or before[0] == owner
            self._given_up[key] = (owner if one else None, now_ms + MAX_AGE_MS)
        while len(self._given_up) > _MAX_GIVEN_UP:
            del self._given_up[next(iter(self._given_up))]

    def _drop(self, pending: _Pending) -> None:
        del self._all[pending.number]
        self.held_bytes -= pending.bytes
        if self._on_thread.get(pending.thread) is pending:
            del self._on_thread[pending.thread]
        self._crafted.pop(pending.number, None)
        if pending.key is not None:
            by_principal = self._by_key[pending.key]
            requests = by_principal[pending.request.principal]
            del requests[pending.number]
            if not requests:
                del by_principal[pending.request.principal]
            if not by_principal:
                del self._by_key[pending.key]
