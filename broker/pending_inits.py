"""Joins requests for producer ids and their answers: who was handed which id. Pure.

Without a transactional id the answer comes on the request's thread, before the thread's next request; with one it may
come on any thread, and repeats the id. The client id must agree too: crafted texts get no second reading.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice

from broker.log_lines import InitProducerIdRequest, InitProducerIdResult, parse_init_result
from broker.tap_records import Binding, ProducerInit

# Requests still without an answer: a broker has one in flight per connection, and answers in milliseconds.
_MAX_PENDING = 2_000
# Of these, with delimiters in a client's text: each costs a comparison per answer that has them too.
_MAX_CRAFTED = 256
# The epoch of a binding that crafted texts made ambiguous: any plain answer about the same id is newer.
_DOUBTFUL_EPOCH = -1


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
class PendingInit:
    """A request without its answer.

    Attributes:
        number: in the order of arrival.
        thread: that it arrived on.
        line: of the log, for the next run of the tap.
        request: what it says.
        transactional_id: if the request can be read in one way only; None also for none.
        crafted: it can be read in more than one way.
    """

    number: int
    thread: bytes
    line: bytes
    request: InitProducerIdRequest
    transactional_id: str | None
    crafted: bool


class PendingInits:
    """The requests of one broker."""

    def __init__(self) -> None:
        """None yet."""
        self._numbers = count()
        self._all: dict[int, PendingInit] = {}
        self._on_thread: dict[bytes, PendingInit] = {}
        self._of_id: dict[str, list[PendingInit]] = {}
        self._crafted: dict[int, PendingInit] = {}

    def lines(self) -> list[bytes]:
        """The lines of all of them."""
        return [pending.line for pending in self._all.values()]

    def asked(self, thread: bytes, line: bytes, request: InitProducerIdRequest) -> None:
        """Note a request that arrived."""
        readings = list(islice(request.readings(), 2))
        transactional_id = readings[0][1] if len(readings) == 1 else None
        pending = PendingInit(next(self._numbers), thread, line, request, transactional_id, len(readings) > 1)
        before = self._on_thread.get(thread)
        if before is not None and before.transactional_id is None and not before.crafted:
            self._drop(before)
        self._all[pending.number] = pending
        self._on_thread[thread] = pending
        if pending.crafted:
            self._crafted[pending.number] = pending
            if len(self._crafted) > _MAX_CRAFTED:
                self._drop(next(iter(self._crafted.values())))
        elif transactional_id is not None:
            self._of_id.setdefault(transactional_id, []).append(pending)
        if len(self._all) > _MAX_PENDING:
            self._drop(next(iter(self._all.values())))

    def answered(self, thread: bytes, message: str) -> list[InitAnswer]:
        """Read an answer: with its request, which is forgotten. Empty if that was not seen, several if crafted."""
        readings, found = 0, []
        for result in parse_init_result(message):
            readings += 1
            match = self._take(thread, result)
            if match is not None:
                found.append((result, *match))
        return [InitAnswer(request, result, of_id, readings > 1) for result, request, of_id in found]

    def _take(self, thread: bytes, result: InitProducerIdResult) -> tuple[InitProducerIdRequest, str | None] | None:
        for pending, transactional_id in self._candidates(thread, result):
            if pending.request.is_of(result.client_id, transactional_id):
                self._drop(pending)
                return pending.request, transactional_id
        return None

    def _candidates(self, thread: bytes, result: InitProducerIdResult) -> Iterator[tuple[PendingInit, str | None]]:
        if result.transactional_id == "null" and thread in self._on_thread:
            yield self._on_thread[thread], None
        for pending in (*self._of_id.get(result.transactional_id, ()), *self._crafted.values()):
            yield pending, result.transactional_id

    def _drop(self, pending: PendingInit) -> None:
        del self._all[pending.number]
        self._crafted.pop(pending.number, None)
        if self._on_thread.get(pending.thread) is pending:
            del self._on_thread[pending.thread]
        if pending.transactional_id is not None:
            others = self._of_id[pending.transactional_id]
            others.remove(pending)
            if not others:
                del self._of_id[pending.transactional_id]
