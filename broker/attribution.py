"""Says which principal each appended batch belongs to: log lines in, produce events out. Pure: no file, no clock.

Rule 1, the thread: the broker handles a PRODUCE request and appends its batches on one thread, so a batch outside a
transaction belongs to the last PRODUCE line of its thread, if that names the partition.

Rule 2, the binding: batches of a transaction are verified first and appended later, on whatever thread is free. They
belong to whom their producer id was handed out, which the INIT_PRODUCER_ID lines tell.

What neither rule can place goes out at once as principal `unknown`, which is reported and never throttled: a producer
that got its id before the log was raised to TRACE, or, for transactions, from another broker.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from broker.log_lines import (
    InitProducerIdRequest,
    LogLine,
    ProduceRequest,
    ProducerStateUpdate,
    is_init,
    is_init_result,
    is_produce,
    parse_init,
    parse_init_result,
    parse_produce,
    parse_state,
)
from broker.topics import is_own_topic
from quota.principals import UNKNOWN_PRINCIPAL

# Only these threads append what a client sends; the others replay or copy what was appended before.
_HANDLER_THREAD = "data-plane-kafka-request-handler-"
_FOLLOWER_THREAD = "ReplicaFetcherThread"
_RECOVERY_THREAD = "log-recovery-"

# About 300 bytes each. A flood of new ids pushes out the longest unused, so that producers at work stay bound.
MAX_BINDINGS = 200_000
# Requests still without an answer: as many as a broker has in flight, with much to spare.
_MAX_PENDING = 10_000


class ProduceEvent(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A record of the topic `produce-events`. A Struct, since it is encoded for each batch of the cluster.

    Attributes:
        timestamp_ms: broker time at which the batch was appended, ms since the epoch.
        principal: such as `User:alice`, or `unknown`.
        producer_id: of the batch.
        producer_epoch: of the batch.
        broker_id: of the broker that appended it.
        topic: that it was appended to.
        partition: that it was appended to.
        client_id: free text of the client.
        transactional_id: free text of the client.
    """

    timestamp_ms: int
    principal: str
    producer_id: int
    producer_epoch: int
    broker_id: int
    topic: str
    partition: int
    client_id: str | None = None
    transactional_id: str | None = None


@dataclass(frozen=True)
class Binding:
    """To whom a producer id was handed out."""

    principal: str
    client_id: str
    transactional_id: str | None


@dataclass
class AttributionCounters:
    """What became of the lines, since the start.

    Attributes:
        events: went out, the unplaced ones included.
        unplaced: went out as `unknown`.
        borrowed: were produced by another principal than the one that the producer id was handed out to.
        followers: batches that a replica copied.
        recovered: batches read again after an unclean stop.
        other_threads: batches appended by neither clients nor the two above.
        own_topics: batches of our own and of internal topics.
        bindings: producer ids seen handed out.
        unmatched_results: answers to INIT_PRODUCER_ID whose request was not seen.
        bad_lines: messages of an unknown form.
    """

    events: int = 0
    unplaced: int = 0
    borrowed: int = 0
    followers: int = 0
    recovered: int = 0
    other_threads: int = 0
    own_topics: int = 0
    bindings: int = 0
    unmatched_results: int = 0
    bad_lines: int = 0


class Attribution:
    """Remembers, for one broker, what each thread works on and whom each producer id was handed out to."""

    def __init__(
        self, broker_id: int, *, own_topics: frozenset[str] = frozenset(), max_bindings: int = MAX_BINDINGS
    ) -> None:
        """Begin with nothing known.

        Args:
            broker_id: written into each event.
            own_topics: that are left alone besides `broker.topics.OWN_TOPICS`.
            max_bindings: producer ids that are remembered.
        """
        self.counters = AttributionCounters()
        self._broker_id = broker_id
        self._own_topics = own_topics
        self._max_bindings = max_bindings
        # The text of the last PRODUCE line by thread, and what it says once somebody asked.
        self._produce: dict[str, str | ProduceRequest] = {}
        self._bindings: dict[int, Binding] = {}
        self._asked_on_thread: dict[str, list[InitProducerIdRequest]] = {}
        self._asked_for_id: dict[str, list[InitProducerIdRequest]] = {}

    def feed(self, line: LogLine) -> ProduceEvent | None:
        """Take the next line of the broker's log; hands back the event it makes, if it is an appended batch."""
        message = line.message
        if line.logger == "ProducerStateManager":
            return self._appended(line)
        if is_produce(message):
            self._produce[line.thread] = message
        elif is_init(message):
            self._asked(line)
        elif is_init_result(message):
            self._answered(line)
        return None

    def binding(self, producer_id: int) -> Binding | None:
        """Whom a producer id was handed out to, if that was seen."""
        return self._bindings.get(producer_id)

    # Batches

    def _appended(self, line: LogLine) -> ProduceEvent | None:
        counters = self.counters
        if not line.thread.startswith(_HANDLER_THREAD):
            if line.thread.startswith(_FOLLOWER_THREAD):
                counters.followers += 1
            elif line.thread.startswith(_RECOVERY_THREAD):
                counters.recovered += 1
            else:
                counters.other_threads += 1
            return None
        update = parse_state(line.message)
        if update is None:
            counters.bad_lines += 1
            return None
        if is_own_topic(update.topic) or update.topic in self._own_topics:
            counters.own_topics += 1
            return None
        owner = self._owner(line.thread, update)
        counters.events += 1
        if owner is None:
            counters.unplaced += 1
            owner = Binding(UNKNOWN_PRINCIPAL, "", None)
        return ProduceEvent(
            line.ts,
            owner.principal,
            update.producer_id,
            update.producer_epoch,
            self._broker_id,
            update.topic,
            update.partition,
            owner.client_id or None,
            owner.transactional_id,
        )

    def _owner(self, thread: str, update: ProducerStateUpdate) -> Binding | None:
        bound = self._bindings.pop(update.producer_id, None)
        if bound is not None:
            # Back in as the last: the first of the dict is then the longest unused.
            self._bindings[update.producer_id] = bound
        if update.transactional or (bound is not None and bound.transactional_id is not None):
            return bound
        request = self._last_produce(thread)
        if request is None or not request.names(update.topic, update.partition):
            return bound
        if bound is not None and bound.principal != request.principal:
            # Whoever uses the id is charged, not whom it was made for; an operator wants to know.
            self.counters.borrowed += 1
        return Binding(request.principal, request.client_id, None)

    def _last_produce(self, thread: str) -> ProduceRequest | None:
        known = self._produce.get(thread)
        if isinstance(known, str):
            # Only now: most PRODUCE lines of clients without producer ids are never asked for.
            parsed = parse_produce(known)
            if parsed is None:
                self.counters.bad_lines += 1
                del self._produce[thread]
            else:
                self._produce[thread] = parsed
            return parsed
        return known

    # Producer ids

    def _asked(self, line: LogLine) -> None:
        readings = parse_init(line.message)
        if not readings:
            self.counters.bad_lines += 1
        # Without a transactional id the answer comes on the same thread, before its next request.
        self._asked_on_thread[line.thread] = [reading for reading in readings if reading.transactional_id is None]
        for reading in readings:
            if reading.transactional_id is not None:
                self._asked_for_id.setdefault(reading.transactional_id, []).append(reading)
        while len(self._asked_for_id) > _MAX_PENDING:
            del self._asked_for_id[next(iter(self._asked_for_id))]

    def _answered(self, line: LogLine) -> None:
        for result in parse_init_result(line.message):
            request = self._request_of(line.thread, result.transactional_id, result.client_id)
            if request is not None:
                if result.error == "NONE":
                    self._bind(result.producer_id, request)
                return
        self.counters.unmatched_results += 1

    def _request_of(self, thread: str, transactional_id: str, client_id: str) -> InitProducerIdRequest | None:
        """The request that an answer belongs to. The client id must agree too: crafted texts get no second reading."""
        if transactional_id == "null":
            for asked in self._asked_on_thread.get(thread, ()):
                if asked.client_id == client_id:
                    del self._asked_on_thread[thread]
                    return asked
        waiting = self._asked_for_id.get(transactional_id, [])
        for asked in waiting:
            if asked.client_id == client_id:
                waiting.remove(asked)
                if not waiting:
                    del self._asked_for_id[transactional_id]
                return asked
        return None

    def _bind(self, producer_id: int, request: InitProducerIdRequest) -> None:
        self._bindings.pop(producer_id, None)
        self._bindings[producer_id] = Binding(request.principal, request.client_id, request.transactional_id)
        self.counters.bindings += 1
        if len(self._bindings) > self._max_bindings:
            del self._bindings[next(iter(self._bindings))]
