"""Joins INIT_PRODUCER_ID requests with their answers: who got which producer id. Pure.

Without a transactional id the answer comes on the request's thread, before that thread's next request; with one it may
come on any thread, and repeats the id. The client id must match too. A denied or invalid request gets no answer line:
it expires after a minute of log time. If requests of several principals match an answer, none is bound. The same holds
if another principal's matching request may exist: one that expired within the last minute, or, in the minute after
lines were lost, one that was missed.
"""

import math
from dataclasses import dataclass
from itertools import count

from broker.log.log_lines import InitProducerIdRequest, InitProducerIdResult, parse_init_result
from wire.records import Binding, ProducerInit

MAX_AGE_MS = 60_000
"""How long a request waits for its answer, in log time; brokers answer in milliseconds."""

MAX_BYTES = 16 * 1024 * 1024
"""Limit for all pending requests; the oldest are evicted."""

# Expired requests remembered, 150 bytes each; no broker refuses so many within a minute while another waits.
_MAX_GIVEN_UP = 50_000
# Requests with delimiters in client texts; an answer with delimiters is compared with each.
_MAX_CRAFTED = 16
# Memory of a request beside its texts.
_BASE_BYTES = 1_000
# Epoch of a binding made ambiguous by crafted texts: any plain answer about the same id supersedes it.
_DOUBTFUL_EPOCH = -1
# Limits of lines kept across a restart of the tap: recent ones, whose answers are still due.
_MAX_KEPT_BYTES = 16 * 1024
_MAX_KEPT_MS = 5_000

_Key = tuple[str, str | None, bytes]


@dataclass(frozen=True)
class InitAnswer:
    """An answer with its request.

    Attributes:
        request: the request.
        result: the producer id, or the error.
        transactional_id: of the request, None for a merely idempotent producer.
        doubtful: delimiters in client texts allow more than one reading.
    """

    request: InitProducerIdRequest
    result: InitProducerIdResult
    transactional_id: str | None
    doubtful: bool

    def record(self, timestamp_ms: int, broker_id: int | None, *, repeated: bool) -> ProducerInit:
        """The record for `producer-inits`."""
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
        """The new binding; None on an error."""
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
    # Set if there is only one reading.
    key: _Key | None
    # Lengths of client id and transactional id in each reading.
    lengths: frozenset[tuple[int, int]]

    @property
    def bytes(self) -> int:
        return _BASE_BYTES + len(self.line) + 2 * len(self.request.text) + 100 * len(self.lengths)

    @property
    def is_plain(self) -> bool:
        """Without a transactional id: its answer comes on its thread, or never."""
        return self.key is not None and self.key[1] is None


class PendingInits:
    """The requests of one broker."""

    def __init__(self) -> None:
        self._numbers = count()
        self._all: dict[int, _Pending] = {}
        self.held_bytes = 0
        """Estimated memory of all pending requests."""
        self._on_thread: dict[bytes, _Pending] = {}
        # By principal, then in the order of arrival.
        self._crafted: dict[int, _Pending] = {}
        self._by_key: dict[_Key, dict[str, dict[int, _Pending]]] = {}
        # Expired requests: by hash of client id and transactional id, hash of the principal (None: several) and end.
        self._given_up: dict[int, tuple[int | None, int]] = {}
        self._unsure_until_ms: float = 0

    def lines(self) -> list[bytes]:
        """Lines of the newest requests, for the next run of the tap."""
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
        """Until when the next run must doubt answers, if it gets this many of the newest requests."""
        newest_ms = next(reversed(self._all.values())).timestamp_ms if self._all else 0
        recent = sum(pending.timestamp_ms >= newest_ms - _MAX_KEPT_MS for pending in self._all.values())
        until_ms = newest_ms + MAX_AGE_MS if kept < recent else 0
        return max(until_ms, 0 if math.isinf(self._unsure_until_ms) else int(self._unsure_until_ms))

    def be_unsure(self, until_ms: float) -> None:
        """Doubt answers until then (log time): their requests may have been missed."""
        self._unsure_until_ms = until_ms

    def forget_all(self, unsure_until_ms: float = 0) -> None:
        """Drop all requests, because lines are missing, and doubt answers until then."""
        self._unsure_until_ms = max(self._unsure_until_ms, unsure_until_ms)
        self._all.clear()
        self._on_thread.clear()
        self._crafted.clear()
        self._by_key.clear()
        self.held_bytes = 0

    def abandon(self, thread: bytes) -> None:
        """Drop a thread's plain request: the thread moved on without answering it."""
        before = self._on_thread.pop(thread, None)
        if before is not None and before.is_plain and before.number in self._all:
            self._drop(before)

    def asked(self, thread: bytes, timestamp_ms: int, line: bytes, request: InitProducerIdRequest) -> None:
        """Add a request."""
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
        """Match an answer with its request, which is removed.

        Empty if no request matches or several principals' may; several results if client texts are crafted.
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
        """The oldest matching request, if all that match are of one principal."""
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
        # Never more than a minute ahead, even if the clock was set back.
        self._unsure_until_ms = min(self._unsure_until_ms, now_ms + MAX_AGE_MS)
        while self._all:
            oldest = next(iter(self._all.values()))
            if oldest.timestamp_ms >= now_ms - MAX_AGE_MS:
                return
            # It may still be answered if the clock jumped ahead.
            self._give_up(oldest, now_ms)

    def _give_up(self, pending: _Pending, now_ms: int) -> None:
        """Expire a request whose answer may still come."""
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
