"""Says which principal each appended batch belongs to: log lines in, records out. Pure: no file, no clock.

Rule 1, the thread: the broker handles a PRODUCE request and appends its batches on one thread, so a batch outside a
transaction belongs to the last PRODUCE line of its thread, if that names the partition and had no batch for it yet.

Rule 2, the binding: batches of a transaction are verified first and appended later, on whatever thread is free. They
belong to whom their producer id was handed out, which the INIT_PRODUCER_ID lines tell, here or on another broker.

What neither rule can place waits for a binding (see `broker.attribution.owners`).

Nothing is guessed: a line that is missing (`broker.log.reorder_buffer`), cut or damaged clears what is known of its
thread, or of all threads if the thread can't be told. A batch of such a thread goes by its binding or as `unknown`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import zip_longest

from broker.attribution.attribution_counters import AttributionCounters
from broker.attribution.batches import Batches
from broker.attribution.owners import Owners
from broker.attribution.pending_inits import MAX_AGE_MS, PendingInits
from broker.errors import LogLineError, TapError
from broker.log.fast_lines import FAST_LINE, STATE_END
from broker.log.log_layout import LogLine, line_number, parse_line
from broker.log.log_lines import (
    CUT,
    MAX_PRODUCER_ID,
    ProducerStateUpdate,
    handling_broker,
    is_init,
    is_init_result,
    is_produce,
    parse_init,
    parse_state,
)
from broker.log.reorder_buffer import ReorderBuffer, ReorderState
from broker.log.request_log import LOGGER as REQUEST_LOGGER
from broker.log.request_log import parse_request_log
from wire.records import ProducerIdBlock, Record

# Only these threads append what a client sends; the others replay or copy what was appended before.
_HANDLER_THREAD = b"data-plane-kafka-request-handler-"

_TIME = re.compile(rb'\{(?:"sn":\d{1,18},)?"ts":(\d{1,15}),')
# What a thread worked on is kept over a restart of the tap, if it is not unreasonably long.
_MAX_KEPT_LINE_BYTES = 8 * 1024
_MAX_KEPT_HELD_BYTES = 256 * 1024


class Attribution(Batches):
    """Remembers, for one broker, what each thread works on.

    Args:
        broker_id: written into each record; read from the lines if None.
        owners: whom producer ids belong to.
        own_topics: that are left alone besides `wire.topics.OWN_TOPICS`.
        every_batch: also send what was sent in the same second already, which changes nothing downstream.
        learn_ms: see `broker.attribution.learning`; 0 marks no event.
    """

    def __init__(
        self,
        broker_id: int | None,
        owners: Owners,
        *,
        own_topics: frozenset[str] = frozenset(),
        every_batch: bool = False,
        learn_ms: int = 0,
    ) -> None:
        super().__init__(broker_id, owners, own_topics=own_topics, every_batch=every_batch, learn_ms=learn_ms)
        self.logging: bool | None = None
        """Whether the broker's log was on when that was asked last."""
        self._learns_broker = broker_id is None
        self._order = ReorderBuffer()
        self._inits = PendingInits()

    @property
    def broker_id(self) -> int | None:
        """Of the broker that writes these lines, None while that is not known."""
        return self._broker_id

    def feed(self, line: bytes, now_s: float) -> Sequence[Record]:
        """Take the next line of the broker's log.

        Args:
            line: without what ends it.
            now_s: seconds of any clock that does not go back, for the waiting.

        Returns:
            The records that it makes, mostly none or one.

        Raises:
            TapError: lines of several brokers come as those of one.
        """
        fast = FAST_LINE.match(line)
        order = self._order
        number = line_number(line) if fast is None else fast[1]
        if number is not None:
            number = int(number)
            if number != order.next or order.waits:
                return self._in_order(order.push(number, line, now_s), now_s)
            order.next = number + 1
        return self._read(line, fast, now_s)

    def expire(self, now_s: float) -> Sequence[Record]:
        """Go on without lines that were waited for long enough."""
        return self._in_order(self._order.flush_expired(now_s), now_s)

    def heard(self, line: bytes) -> None:
        """Take note of the newest line of a batch: also one that makes no event says that the log is on."""
        when = _time(line)
        if when is not None:
            self.learning.observe(when, self._learn_ms)

    def damaged(self, line: bytes) -> None:
        """Count a line that makes no sense; whose it was is not known."""
        self._bad(line)
        self._forget(_time(line))

    # Over a restart of the tap

    def kept_lines(self) -> list[bytes]:
        """Lines that the next run has to know to go on as if there had been no end: for its `restore`."""
        return [line for line in (*self._threads.lines(), *self._inits.lines()) if len(line) <= _MAX_KEPT_LINE_BYTES]

    def kept_order(self) -> ReorderState | None:
        """What the next run has to know of the lines' numbers; None if they have none."""
        held = self._order.held()
        if sum(map(len, held)) > _MAX_KEPT_HELD_BYTES:
            held = []
        kept = sum(len(line) <= _MAX_KEPT_LINE_BYTES for line in self._inits.lines())
        return ReorderState(self._order.next, held, self._inits.unsure_until_ms(kept)) if self._order.next else None

    def restore(self, kept_lines: list[bytes], order: ReorderState | None, now_s: float) -> None:
        """Take what the last run kept."""
        for line in kept_lines:
            self._read(line, FAST_LINE.match(line), now_s)
        if order is not None:
            self._order.next = order.next
            self._inits.be_unsure(order.unsure_until_ms)
            for line in order.held:
                self._order.push(int(line_number(line) or 0), line, now_s)
        self.counters = AttributionCounters()

    def _in_order(self, lines: list[bytes | None], now_s: float) -> Sequence[Record]:
        out: list[Record] = []
        before = b""
        for line, behind in zip_longest(lines, lines[1:]):
            if line is not None:
                out += self._read(line, FAST_LINE.match(line), now_s)
                before = line
            elif behind is not None and line_number(behind) == b"1":
                # A broker that starts again has all its requests behind its first line.
                self._forget(None)
                self._inits.be_unsure(0)
            else:
                self._forget(_time(behind or before))
        self.counters.lost_lines = self._order.lost_lines
        return out

    def _forget(self, now_ms: int | None) -> None:
        self._threads.forget_all()
        # Without numbers most losses show nowhere: one that does makes nothing surer.
        unsure_ms = math.inf if now_ms is None else now_ms + MAX_AGE_MS
        self._inits.forget_all(unsure_ms if self._order.next else 0)

    def _read(self, line: bytes, fast: re.Match[bytes] | None, now_s: float) -> Sequence[Record]:
        if fast is None:
            return self._read_decoded(line, now_s)
        # Straight through: this is the way of nearly all lines.
        number, ts, thread, broker, topic, partition, producer_id, epoch, sequence, transaction = fast.groups()
        if broker is not None:
            if self._learns_broker:
                self._learn_broker(int(broker))
            self._threads.arrived(thread, line, fast.end())
            return ()
        pid = int(producer_id)
        if pid > MAX_PRODUCER_ID or not line.endswith(STATE_END):
            self.damaged(line)
            return ()
        if not thread.startswith(_HANDLER_THREAD):
            return self._no_client(thread)
        name = self._topics.get(topic) or self._followed(topic)
        if name is None:
            self.counters.own_topics += 1
            return ()
        if sequence == b"-1":
            self.counters.markers += 1
            return ()
        # A coordinator's epoch stays after a transaction: it says nothing of this batch.
        batch = ProducerStateUpdate(name, int(partition), pid, int(epoch), transaction != b".empty", False)
        return self._appended(int(ts), thread, batch, now_s, numbered=number is not None)

    def _read_decoded(self, raw: bytes, now_s: float) -> Sequence[Record]:
        # Whoever lets other loggers write to the same file pays these looks, not the decoding.
        if b"KafkaApi" not in raw and b"ProducerStateManager" not in raw and b"Completed request:" not in raw:
            # Of another logger, unless it was cut in front of that.
            if raw.startswith(b"{") and not raw.endswith(b"}"):
                self.damaged(raw)
            return ()
        try:
            line = parse_line(raw)
            if line.logger == "ProducerStateManager":
                return self._decoded_batch(line, raw, now_s)
            if line.logger == REQUEST_LOGGER:
                return self._from_request_log(line)
        except LogLineError:
            self.damaged(raw)
            return ()
        return self._request_or_answer(line, raw) if line.logger == "KafkaApis" else ()

    def _request_or_answer(self, line: LogLine, raw: bytes) -> Sequence[Record]:
        message, thread = line.message, line.thread.encode()
        broker = handling_broker(message)
        if broker is None:
            if is_init_result(message):
                return self._answered(line)
            self._abandon(thread)
            if message.endswith(CUT):
                self._bad(raw)
            return ()
        if self._learns_broker:
            self._learn_broker(broker)
        # Whatever comes next on this thread is not of the request before.
        self._abandon(thread)
        if is_produce(message):
            self._threads.arrived(thread, raw)
        elif is_init(message):
            request = parse_init(message)
            if request is None:
                self._bad(raw)
            else:
                self._inits.asked(thread, line.ts, raw, request)
        return ()

    def _abandon(self, thread: bytes) -> None:
        self._threads.ended(thread)
        self._inits.abandon(thread)

    def _learn_broker(self, broker_id: int) -> None:
        if self._broker_id is None:
            self._broker_id = broker_id
        elif self._broker_id != broker_id:
            msg = (
                f"lines of brokers {self._broker_id} and {broker_id} come without saying whose they are, and threads "
                f"of both are called the same: give each broker's records a key, a header or a field broker_id"
            )
            raise TapError(msg)

    # Batches

    def _decoded_batch(self, line: LogLine, raw: bytes, now_s: float) -> Sequence[Record]:
        thread = line.thread.encode()
        if not thread.startswith(_HANDLER_THREAD):
            return self._no_client(thread)
        update = parse_state(line.message)
        if update is None:
            self.damaged(raw)
            return ()
        if self._followed(update.topic.encode()) is None:
            self.counters.own_topics += 1
            return ()
        if update.marker:
            self.counters.markers += 1
            return ()
        return self._appended(line.ts, thread, update, now_s, numbered=line_number(raw) is not None)

    # Producer ids

    def _answered(self, line: LogLine) -> Sequence[Record]:
        counters = self.counters
        answers = self._inits.answered(line.thread.encode(), line.ts, line.message)
        counters.inits += bool(answers)
        counters.unmatched_results += not answers
        out: list[Record] = []
        for answer in answers:
            counters.crafted_inits += answer.doubtful
            out.append(answer.record(line.ts, self._broker_id, repeated=self.repeated))
            binding = answer.binding(line.ts, self._broker_id)
            if binding is None:
                continue
            counters.bindings += 1
            released = self._owners.bind(binding)
            if released is not None:
                out += (binding, *released)
        return out

    # The request logger

    def _from_request_log(self, line: LogLine) -> Sequence[Record]:
        records = parse_request_log(line.message, line.ts, self._broker_id)
        blocks = sum(isinstance(record, ProducerIdBlock) for record in records)
        self.counters.id_blocks += blocks
        self.counters.failures += len(records) - blocks
        return records


def _time(line: bytes) -> int | None:
    found = _TIME.match(line)
    return int(found[1]) if found is not None else None
