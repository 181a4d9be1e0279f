"""Attributes each appended batch to a principal: log lines in, records out. Pure: no file, no clock.

Rule 1, the thread: a broker handles a PRODUCE request and appends its batches on one thread. So a batch outside a
transaction belongs to the last PRODUCE line of its thread, if that names the partition and had no batch for it yet.

Rule 2, the binding: batches of a transaction are verified first and appended later, on any thread. They belong to the
principal that got their producer id, which INIT_PRODUCER_ID lines tell, on this broker or another.

A batch that neither rule can attribute waits for a binding (see `broker.attribution.owners`).

Nothing is guessed: a line that is missing (`broker.log.reorder_buffer`), cut or damaged clears what is known of its
thread, or of all threads if the thread can't be told. A batch of such a thread goes by its binding or as `unknown`.
"""

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

# Only these threads append batches of clients; others replay or replicate.
_HANDLER_THREAD = b"data-plane-kafka-request-handler-"

_TIME = re.compile(rb'\{(?:"sn":\d{1,18},)?"ts":(\d{1,15}),')
# Limits of what the position file keeps of pending lines.
_MAX_KEPT_LINE_BYTES = 8 * 1024
_MAX_KEPT_HELD_BYTES = 256 * 1024


class Attribution(Batches):
    """Reads the log of one broker, tracking the request of each thread.

    Args:
        broker_id: put into each record; None reads it from the lines.
        owners: bindings of producer ids.
        own_topics: ignored, like `wire.topics.OWN_TOPICS`.
        every_batch: keep repeats within a tick, which change nothing downstream.
        learn_ms: see `broker.attribution.learning`; 0 marks no event as learning.
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
        """Whether the broker's log was on when last checked."""
        self.calm = False
        """Whether it is off on purpose, since few new producer ids come."""
        self._learns_broker = broker_id is None
        self._order = ReorderBuffer()
        self._inits = PendingInits()

    @property
    def broker_id(self) -> int | None:
        """Id of the broker that writes these lines; None while unknown."""
        return self._broker_id

    def feed(self, line: bytes, now_s: float) -> Sequence[Record]:
        """Process the next line of the broker's log.

        Args:
            line: without its delimiter.
            now_s: monotonic clock, in seconds.

        Returns:
            Records, mostly none or one.

        Raises:
            TapError: lines of several brokers are mixed.
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
        """Skip missing lines that have been waited for long enough."""
        return self._in_order(self._order.flush_expired(now_s), now_s)

    def heard(self, line: bytes) -> None:
        """Note the newest line of a batch: it shows that the log is on, even if it makes no event."""
        when = _time(line)
        if when is not None:
            self.learning.observe(when, self._learn_ms)

    def damaged(self, line: bytes) -> None:
        """Count a damaged line and forget the threads' requests, since its thread is unknown."""
        self._bad(line)
        self._forget(_time(line))

    # Across restarts of the tap

    def kept_lines(self) -> list[bytes]:
        """Lines that the next run needs to resume exactly here; see `restore`."""
        return [line for line in (*self._threads.lines(), *self._inits.lines()) if len(line) <= _MAX_KEPT_LINE_BYTES]

    def kept_order(self) -> ReorderState | None:
        """State of the reorder buffer for the next run; None if lines have no numbers."""
        held = self._order.held()
        if sum(map(len, held)) > _MAX_KEPT_HELD_BYTES:
            held = []
        kept = sum(len(line) <= _MAX_KEPT_LINE_BYTES for line in self._inits.lines())
        return ReorderState(self._order.next, held, self._inits.unsure_until_ms(kept)) if self._order.next else None

    def restore(self, kept_lines: list[bytes], order: ReorderState | None, now_s: float) -> None:
        """Resume from what the last run kept."""
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
                # A restarted broker writes all its requests after its first line.
                self._forget(None)
                self._inits.be_unsure(0)
            else:
                self._forget(_time(behind or before))
        self.counters.lost_lines = self._order.lost_lines
        return out

    def _forget(self, now_ms: int | None) -> None:
        self._threads.forget_all()
        # Without numbers most losses go unnoticed anyway.
        unsure_ms = math.inf if now_ms is None else now_ms + MAX_AGE_MS
        self._inits.forget_all(unsure_ms if self._order.next else 0)

    def _read(self, line: bytes, fast: re.Match[bytes] | None, now_s: float) -> Sequence[Record]:
        if fast is None:
            return self._read_decoded(line, now_s)
        # Inlined: nearly all lines take this path.
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
        # The coordinator's epoch outlives its transaction: it says nothing about this batch.
        batch = ProducerStateUpdate(name, int(partition), pid, int(epoch), transaction != b".empty", False)
        return self._appended(int(ts), thread, batch, now_s, numbered=number is not None)

    def _read_decoded(self, raw: bytes, now_s: float) -> Sequence[Record]:
        # Lines of other loggers in the same file are skipped without decoding.
        if b"KafkaApi" not in raw and b"ProducerStateManager" not in raw and b"Completed request:" not in raw:
            # Another logger's, unless it was cut before the logger's name.
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
        # What follows on this thread does not belong to the request before.
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
                f"lines of brokers {self._broker_id} and {broker_id} are mixed, and nothing tells them apart: "
                f"give each broker's records a key, a header or a field broker_id"
            )
            raise TapError(msg)

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

    def _from_request_log(self, line: LogLine) -> Sequence[Record]:
        records = parse_request_log(line.message, line.ts, self._broker_id)
        blocks = sum(isinstance(record, ProducerIdBlock) for record in records)
        self.counters.id_blocks += blocks
        self.counters.failures += len(records) - blocks
        return records


def _time(line: bytes) -> int | None:
    found = _TIME.match(line)
    return int(found[1]) if found is not None else None
