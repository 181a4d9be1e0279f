"""Attributes appended batches to principals and makes events of them. Pure."""

from collections import deque
from collections.abc import Sequence

from broker.attribution.attribution_counters import AttributionCounters
from broker.attribution.deduplicator import WAITING, How
from broker.attribution.known_ids import NO_ANSWERS
from broker.attribution.learning import LearningTime
from broker.attribution.owners import Owners, unplaced
from broker.attribution.thread_requests import ThreadRequests
from broker.log.log_lines import ProduceRequest, ProducerStateUpdate
from quota.principals import UNKNOWN_PRINCIPAL
from wire.heartbeat import BorrowedId
from wire.records import Binding, ProduceEvent, Record
from wire.topics import is_own_topic

_FOLLOWER_THREAD = b"ReplicaFetcherThread"
_RECOVERY_THREAD = b"log-recovery-"
_MAX_TOPICS = 100_000
_BORROWED_SAMPLES = 16
_BAD_SAMPLES = 8
_BAD_SAMPLE_BYTES = 200
# Owner of a batch whose thread and binding disagree.
_DISPUTED = ProduceRequest("", "", "")


class Batches:
    """The part of `Attribution` that is independent of log lines: rules 1 and 2, and the events.

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
        self.learning = LearningTime()
        self.answers = NO_ANSWERS
        """What the brokers held when they were asked."""
        self._learn_ms = learn_ms
        self.counters = AttributionCounters()
        self.borrowed: deque[BorrowedId] = deque(maxlen=_BORROWED_SAMPLES)
        self.bad_samples: deque[str] = deque(maxlen=_BAD_SAMPLES)
        self.newest_line_ms: int | None = None
        self.repeated = False
        """Whether a crashed run may already have sent the events of the next lines."""
        self._broker_id = broker_id
        self._owners = owners
        self._own_topics = own_topics
        self._repeats = None if every_batch else owners.repeats
        self._threads = ThreadRequests()
        # None for ignored topics.
        self._topics: dict[bytes, str | None] = {}

    def _bad(self, line: bytes) -> None:
        self.counters.bad_lines += 1
        self.bad_samples.append(line[:_BAD_SAMPLE_BYTES].decode(errors="replace"))

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

    def _appended(
        self, ts: int, thread: bytes, batch: ProducerStateUpdate, now_s: float, *, numbered: bool
    ) -> Sequence[Record]:
        self.newest_line_ms = ts
        producer_id, epoch, topic, partition = batch.producer_id, batch.producer_epoch, batch.topic, batch.partition
        learning, asked_at_ms = self.learning.is_learning(ts, self._learn_ms), None
        if self.answers is not NO_ANSWERS:
            learning, asked_at_ms = self.answers.judge(producer_id, ts, self.learning.since_ms, learning=learning)
        owner = self._owner(thread, batch, numbered=numbered)
        if owner is None or owner is _DISPUTED:
            whose = WAITING if owner is None else UNKNOWN_PRINCIPAL
            if self._is_repeat(ts, producer_id, whose, ("", self._broker_id, learning, None)):
                return ()
            self.counters.events += 1
            event = unplaced(ts, producer_id, epoch, self._broker_id, topic, partition, learning=learning)
            return self._owners.wait(event, now_s) if owner is None else (event,)
        how = (owner.client_id, self._broker_id, learning, asked_at_ms)
        if self._is_repeat(ts, producer_id, owner.principal, how):
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
            asked_at_ms,
        )
        if isinstance(owner, Binding) and self._owners.is_due(owner, ts):
            return (event, owner)
        return (event,)

    def _is_repeat(self, ts: int, producer_id: int, principal: str, how: How) -> bool:
        if self._repeats is None or not self._repeats.is_repeat(ts, producer_id, principal, how):
            return False
        self.counters.repeats += 1
        return True

    def _owner(self, thread: bytes, batch: ProducerStateUpdate, *, numbered: bool) -> Binding | ProduceRequest | None:
        producer_id = batch.producer_id
        if batch.transactional:
            return self._owners.find(producer_id)
        request = self._threads.take(thread, batch.topic, batch.partition)
        if request is None:
            for line in self._threads.take_bad_lines():
                self._bad(line)
            return self._owners.find(producer_id)
        bound = self._owners.find_hot(producer_id)
        if bound is None or bound.principal == request.principal:
            return request
        # Charge the user of the id, not its owner; report it to the operator.
        self.counters.borrowed += 1
        self.borrowed.append(BorrowedId(producer_id, bound.principal, request.principal))
        # Without line numbers, the line of another request may be missing in between.
        return request if numbered else _DISPUTED
