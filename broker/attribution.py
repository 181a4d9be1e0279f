"""Says which principal each appended batch belongs to: log lines in, records out. Pure: no file, no clock.

Rule 1, the thread: the broker handles a PRODUCE request and appends its batches on one thread, so a batch outside a
transaction belongs to the last PRODUCE line of its thread, if that names the partition and had no batch for it yet.

Rule 2, the binding: batches of a transaction are verified first and appended later, on whatever thread is free. They
belong to whom their producer id was handed out, which the INIT_PRODUCER_ID lines tell, here or on another broker.

What neither rule can place waits for a binding (see `broker.owners`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from broker.errors import LogLineError, TapError
from broker.fast_lines import FAST_LINE, STATE_END
from broker.learning import LearningTime
from broker.log_layout import LogLine, parse_line
from broker.log_lines import (
    ProduceRequest,
    handling_broker,
    is_init,
    is_init_result,
    is_produce,
    parse_init,
    parse_state,
)
from broker.owners import Owners, unplaced
from broker.pending_inits import PendingInits
from broker.repeats import Repeats
from broker.request_log import LOGGER as REQUEST_LOGGER
from broker.request_log import parse_request_log
from broker.tap_counters import AttributionCounters, BorrowedId
from broker.tap_records import Binding, ProduceEvent, ProducerIdBlock, Record
from broker.thread_requests import ThreadRequests
from broker.topics import is_own_topic

# Only these threads append what a client sends; the others replay or copy what was appended before.
_HANDLER_THREAD = b"data-plane-kafka-request-handler-"
_FOLLOWER_THREAD = b"ReplicaFetcherThread"
_RECOVERY_THREAD = b"log-recovery-"

_MAX_TOPICS = 100_000
_BORROWED_SAMPLES = 16
# What a thread worked on is kept over a restart of the tap, if it is not unreasonably long.
_MAX_KEPT_LINE_BYTES = 64 * 1024


class Attribution:
    """Remembers, for one broker, what each thread works on."""

    def __init__(
        self,
        broker_id: int | None,
        owners: Owners,
        *,
        own_topics: frozenset[str] = frozenset(),
        every_batch: bool = False,
        learn_ms: int = 0,
    ) -> None:
        """Begin with nothing known of the threads.

        Args:
            broker_id: written into each record; read from the lines if None.
            owners: whom producer ids belong to.
            own_topics: that are left alone besides `broker.topics.OWN_TOPICS`.
            every_batch: also send what was sent in the same second already, which changes nothing downstream.
            learn_ms: see `broker.learning`; 0 marks no event.
        """
        self.learning = LearningTime()
        self._learn_ms = learn_ms
        self.counters = AttributionCounters()
        self.borrowed: deque[BorrowedId] = deque(maxlen=_BORROWED_SAMPLES)
        self.newest_line_ms: int | None = None
        self.repeated = False
        """Whether the lines to come may have been sent by a run that crashed."""
        self._broker_id = broker_id
        self._learns_broker = broker_id is None
        self._owners = owners
        self._own_topics = own_topics
        self._repeats = None if every_batch else Repeats()
        self._threads = ThreadRequests()
        self._inits = PendingInits()
        # None for those that are left alone.
        self._topics: dict[bytes, str | None] = {}

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
        if fast is None:
            return self._feed_decoded(line, now_s)
        # Straight through: this is the way of nearly all lines.
        ts, thread, broker, topic, partition, producer_id, epoch, sequence, transaction, coordinator = fast.groups()
        if broker is not None:
            if self._learns_broker:
                self._learn_broker(int(broker))
            self._threads.arrived(thread, line, fast.end())
            return ()
        if not line.endswith(STATE_END):
            self.counters.bad_lines += 1
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
        transactional = transaction != b".empty" or coordinator != b"-1"
        return self._appended(int(ts), thread, name, int(partition), int(producer_id), int(epoch), transactional, now_s)

    def kept_lines(self) -> list[bytes]:
        """Lines that the next run has to know to go on as if there had been no end: `feed` them to it first."""
        return [line for line in (*self._threads.lines(), *self._inits.lines()) if len(line) <= _MAX_KEPT_LINE_BYTES]

    def _feed_decoded(self, raw: bytes, now_s: float) -> Sequence[Record]:
        # Whoever lets other loggers write to the same file pays these looks, not the decoding.
        if b"KafkaApi" not in raw and b"ProducerStateManager" not in raw and b"Completed request:" not in raw:
            return ()
        try:
            line = parse_line(raw)
            if line.logger == "ProducerStateManager":
                return self._decoded_batch(line, now_s)
            if line.logger == REQUEST_LOGGER:
                return self._from_request_log(line)
        except LogLineError:
            self.counters.bad_lines += 1
            return ()
        return self._request_or_answer(line, raw) if line.logger == "KafkaApis" else ()

    def _request_or_answer(self, line: LogLine, raw: bytes) -> Sequence[Record]:
        message, thread = line.message, line.thread.encode()
        broker = handling_broker(message)
        if broker is None:
            return self._answered(line) if is_init_result(message) else ()
        if self._learns_broker:
            self._learn_broker(broker)
        # Whatever comes next on this thread is not of the request before.
        self._threads.ended(thread)
        if is_produce(message):
            self._threads.arrived(thread, raw)
        elif is_init(message):
            request = parse_init(message)
            if request is None:
                self.counters.bad_lines += 1
            else:
                self._inits.asked(thread, raw, request)
        return ()

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

    def _no_client(self, thread: bytes) -> Sequence[Record]:
        if thread.startswith(_FOLLOWER_THREAD):
            self.counters.followers += 1
        elif thread.startswith(_RECOVERY_THREAD):
            self.counters.recovered += 1
        else:
            self.counters.other_threads += 1
        return ()

    def _followed(self, topic: bytes) -> str | None:
        if topic in self._topics:
            return self._topics[topic]
        if len(self._topics) >= _MAX_TOPICS:
            self._topics.clear()
        name = topic.decode()
        self._topics[topic] = None if is_own_topic(name) or name in self._own_topics else name
        return self._topics[topic]

    def _decoded_batch(self, line: LogLine, now_s: float) -> Sequence[Record]:
        thread = line.thread.encode()
        if not thread.startswith(_HANDLER_THREAD):
            return self._no_client(thread)
        update = parse_state(line.message)
        if update is None:
            self.counters.bad_lines += 1
            return ()
        if self._followed(update.topic.encode()) is None:
            self.counters.own_topics += 1
            return ()
        if update.marker:
            self.counters.markers += 1
            return ()
        return self._appended(
            line.ts,
            thread,
            update.topic,
            update.partition,
            update.producer_id,
            update.producer_epoch,
            update.transactional,
            now_s,
        )

    def _appended(
        self,
        ts: int,
        thread: bytes,
        topic: str,
        partition: int,
        producer_id: int,
        epoch: int,
        transactional: bool,
        now_s: float,
    ) -> Sequence[Record]:
        self.newest_line_ms = ts
        learning = self.learning.is_learning(ts, self._learn_ms)
        owner = self._owner(thread, topic, partition, producer_id, transactional)
        if owner is None:
            if self._was_sent(ts, producer_id, "", ""):
                return ()
            self.counters.events += 1
            event = unplaced(ts, producer_id, epoch, self._broker_id, topic, partition, learning=learning)
            return self._owners.wait(event, now_s)
        if self._was_sent(ts, producer_id, owner.principal, owner.client_id):
            return ()
        self.counters.events += 1
        event = ProduceEvent(
            ts,
            owner.principal,
            producer_id,
            epoch,
            self._broker_id,
            topic,
            partition,
            owner.client_id or None,
            owner.transactional_id if isinstance(owner, Binding) else None,
            False,
            self.repeated,
            learning,
        )
        if isinstance(owner, Binding) and self._owners.is_due(owner, ts):
            return (event, owner)
        return (event,)

    def _was_sent(self, ts: int, producer_id: int, principal: str, client_id: str) -> bool:
        if self._repeats is None or not self._repeats.has(ts, producer_id, principal, client_id):
            return False
        self.counters.repeats += 1
        return True

    def _owner(
        self, thread: bytes, topic: str, partition: int, producer_id: int, transactional: bool
    ) -> Binding | ProduceRequest | None:
        if transactional:
            return self._owners.find(producer_id)
        bound = self._owners.find_hot(producer_id)
        if bound is not None and bound.transactional_id is not None:
            return bound
        request = self._threads.take(thread, topic, partition)
        if request is None:
            self.counters.bad_lines += self._threads.take_bad_lines()
            return bound or self._owners.find(producer_id)
        if bound is not None and bound.principal != request.principal:
            # Whoever uses the id is charged, not whom it was made for; an operator wants to know.
            self.counters.borrowed += 1
            self.borrowed.append(BorrowedId(producer_id, bound.principal, request.principal))
        return request

    # Producer ids

    def _answered(self, line: LogLine) -> Sequence[Record]:
        counters = self.counters
        answers = self._inits.answered(line.thread.encode(), line.message)
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
