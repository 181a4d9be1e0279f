"""Polls brokers for the producer ids of their partitions, for managed clusters that load no class.

An id that appears after the first round, or has a new batch, makes an event if an owners file or ACLs name its owner.
The poll misses batches on a leader that dies before the next round.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass

from broker.errors import BrokerUnreachableError, TapDeliveryError, TopicMissingError
from broker.kafka.acls import Acls
from broker.kafka.config import KafkaConfig
from broker.kafka.producers import (
    NO_LEADER,
    REQUESTS_PER_SECOND,
    ProducersAdmin,
    TopicPartition,
    ask_producers,
)
from broker.kafka.topics import require_topic
from broker.tap.heartbeats import HEARTBEAT_S
from broker.tap.poll_heartbeats import PollHeartbeats
from broker.tap.poll_placing import PollOwners, PollPlacement
from broker.tap.tap_output import TapOutput
from wire.records import ProduceEvent
from wire.topics import PRODUCE_EVENTS, TAP_STATUS, is_own_topic

TICK_SECONDS = 10.0
"""A tick of a stream whose window is 3600 s. Within a tick, a repeated event changes nothing."""

_FLUSH_TIMEOUT_S = 15.0


@dataclass(frozen=True)
class ActiveProducer:
    """A partition's entry for a producer, from the leader `broker_id`. The producer sets `last_timestamp_ms`."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    last_timestamp_ms: int
    in_transaction: bool
    broker_id: int


@dataclass(frozen=True)
class LedProducers:
    """Number of producer ids on those partitions of a topic that a broker leads. An id counts once per partition."""

    broker_id: int
    topic: str
    producers: int
    in_transaction: int


@dataclass
class PollCounters:
    """Counters since the start. `unowned` counts events that were dropped because their owner is unknown."""

    polls: int = 0
    requests: int = 0
    failed_partitions: int = 0
    events: int = 0
    unowned: int = 0


@dataclass
class _Sighting:
    last_timestamp_ms: int
    reported_at: float
    round: int


class ProducerPoll:
    """A poll of all brokers in rounds. Without `owners`, no events are sent."""

    def __init__(
        self,
        kafka: KafkaConfig,
        interval_seconds: float,
        *,
        owners: PollOwners | None = None,
        report: Callable[[Sequence[LedProducers]], None] = lambda _: None,
        report_placement: Callable[[PollPlacement], None] = lambda _: None,
        topic: str = PRODUCE_EVENTS,
        requests_per_second: float = REQUESTS_PER_SECOND,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._kafka = kafka
        self._interval_seconds = interval_seconds
        self._owners = owners
        self._report = report
        self._report_placement = report_placement
        self._topic = topic
        self._requests_per_second = requests_per_second
        self._clock = clock
        self._seen: dict[int, _Sighting] = {}
        # The ids in a partition's first answer may be old if the partition existed in an earlier round.
        self._answered: set[tuple[str, int]] = set()
        self._unanswered: set[tuple[str, int]] = set()
        self._answered_late: set[tuple[str, int]] = set()
        self._heartbeats: PollHeartbeats | None = None
        self._failed_by_broker: Counter[int] = Counter()
        self.counters = PollCounters()

    def run(self, stop: threading.Event) -> None:
        """Poll until `stop` is set.

        Raises:
            BrokerUnreachableError: If no broker answers at the start.
            ClusterRequestError: If owners come from ACLs that this user may not read.
            TopicMissingError: If `owners` is given, but `topic` does not exist.
            TapDeliveryError: If Kafka did not accept an event.
        """
        with ExitStack() as stack:
            output = None
            if self._owners is not None:
                require_topic(self._kafka.client(), self._topic)
                self._heartbeats = self._open_heartbeats()
                output = stack.enter_context(closing(TapOutput(self._kafka.client(), self._topic)))
            admin = stack.enter_context(ProducersAdmin(self._kafka.kafka_python()))
            if self._owners is not None:
                self._owners.begin(Acls(admin), self._clock())
            while not stop.is_set():
                self._round(admin, output, stop)
                self._pause(output, stop)
            self._send_heartbeats(output, stopped=True)

    def _pause(self, output: TapOutput | None, stop: threading.Event) -> None:
        end_s = time.monotonic() + self._interval_seconds
        while not stop.is_set() and (left_s := end_s - time.monotonic()) > 0:
            self._send_heartbeats(output, stopped=False)
            stop.wait(min(left_s, HEARTBEAT_S))

    def _open_heartbeats(self) -> PollHeartbeats | None:
        with suppress(TopicMissingError):
            require_topic(self._kafka.client(), TAP_STATUS)
            return PollHeartbeats(self._clock)
        return None

    def _send_heartbeats(self, output: TapOutput | None, *, stopped: bool) -> None:
        if output is None or self._heartbeats is None or not (stopped or self._heartbeats.are_due()):
            return
        self._heartbeats.send(output, asdict(self.counters), self._failed_by_broker, stopped=stopped)
        output.flush(_FLUSH_TIMEOUT_S)

    def _round(self, admin: ProducersAdmin, output: TapOutput | None, stop: threading.Event) -> None:
        # 1. Ask every broker about the partitions it leads, in small requests.
        answer = self._ask_all(admin, stop)
        if answer is None or stop.is_set():
            return
        found, complete = answer
        # 2. Count the producer ids.
        self._report(_occupancy(found))
        # 3. Send events for new ids and batches. If no broker answers, the next round sends the events.
        if output is not None and self._owners is not None:
            try:
                named = self._read_owners(admin, self._owners)
            except BrokerUnreachableError:
                return
            late = {each.producer_id for each in found if (each.topic, each.partition) in self._answered_late}
            self._send_news(output, self._owners, stop, _latest(found), named, late)
            self._answered_late.clear()
        # 4. Forget ids that no partition holds, unless a partition did not answer.
        if complete:
            self._seen = {pid: seen for pid, seen in self._seen.items() if seen.round == self.counters.polls}
        self.counters.polls += 1

    def _read_owners(self, admin: ProducersAdmin, owners: PollOwners) -> dict[int, str]:
        owners.follow(Acls(admin), self._clock())
        if not owners.by_transactional_id:
            return {}
        self.counters.requests += 1
        return admin.transactional_ids()

    def _send_news(
        self,
        output: TapOutput,
        owners: PollOwners,
        stop: threading.Event,
        latest: Mapping[int, ActiveProducer],
        named: Mapping[int, str],
        late: Container[int],
    ) -> None:
        placement = owners.placement((each.topic, named.get(pid)) for pid, each in latest.items())
        if placement is not None:
            self._report_placement(placement)
        for each in self._news(latest, late):
            transactional_id = named.get(each.producer_id)
            principal = owners.of(each.topic, transactional_id).principal
            if principal is None:
                self.counters.unowned += 1
            else:
                output.send(self._event(principal, each, transactional_id), stop.is_set)
        output.send_events(stop.is_set)
        left = output.flush(_FLUSH_TIMEOUT_S)
        if left:
            msg = (
                f"topic {self._topic!r} did not take {left} records in {_FLUSH_TIMEOUT_S:g} s: "
                f"check its settings and WRITE on it"
            )
            raise TapDeliveryError(msg)

    def _ask_all(self, admin: ProducersAdmin, stop: threading.Event) -> tuple[list[ActiveProducer], bool] | None:
        """Return the entries of all partitions, and whether all answered; None if no broker answers."""
        failed_before = self.counters.failed_partitions
        self._failed_by_broker.clear()
        found: list[ActiveProducer] = []
        try:
            led = admin.partitions_by_leader()
        except BrokerUnreachableError:
            self.counters.failed_partitions += 1
            return None
        self._failed(led.pop(NO_LEADER, []))
        wanted = {leader: [each for each in led[leader] if not is_own_topic(each[0])] for leader in led}
        for answer in ask_producers(admin, wanted, stop.wait, self._requests_per_second):
            self.counters.requests += answer.is_sent
            failed = [(each.topic, each.partition) for each in answer.partitions if each.problem]
            self._failed(failed)
            self._failed_by_broker[answer.broker_id] += len(failed)
            answered = {(each.topic, each.partition) for each in answer.partitions if not each.problem}
            self._answered_late |= self._unanswered & answered
            self._unanswered -= answered
            self._answered |= answered
            found += (
                ActiveProducer(
                    each.topic,
                    each.partition,
                    entry.producer_id,
                    entry.producer_epoch,
                    entry.last_timestamp,
                    entry.current_txn_start_offset >= 0,
                    answer.broker_id,
                )
                for each in answer.partitions
                for entry in each.producers
            )
            if stop.is_set():
                return found, False
        return found, self.counters.failed_partitions == failed_before

    def _failed(self, portion: list[TopicPartition]) -> None:
        self.counters.failed_partitions += len(portion)
        self._unanswered |= set(portion) - self._answered

    def _news(self, latest: Mapping[int, ActiveProducer], late: Container[int]) -> Iterator[ActiveProducer]:
        """Yield producers that are new and not `late`, or have a new batch since their last event, once a tick at most.

        `late` ids may be old, because their partition's first answer came late.
        """
        now, this_round = self._clock(), self.counters.polls
        for pid, each in latest.items():
            seen = self._seen.get(pid)
            if seen is None:
                self._seen[pid] = _Sighting(each.last_timestamp_ms, now, this_round)
                if this_round > 0 and pid not in late:
                    yield each
                continue
            seen.round = this_round
            if each.last_timestamp_ms != seen.last_timestamp_ms and now - seen.reported_at >= TICK_SECONDS:
                seen.last_timestamp_ms, seen.reported_at = each.last_timestamp_ms, now
                yield each

    def _event(self, principal: str, seen: ActiveProducer, transactional_id: str | None) -> ProduceEvent:
        self.counters.events += 1
        return ProduceEvent(
            timestamp_ms=int(self._clock() * 1000),
            principal=principal,
            producer_id=seen.producer_id,
            producer_epoch=seen.producer_epoch,
            broker_id=seen.broker_id,
            topic=seen.topic,
            partition=seen.partition,
            transactional_id=transactional_id,
        )


def _latest(found: Sequence[ActiveProducer]) -> dict[int, ActiveProducer]:
    latest: dict[int, ActiveProducer] = {}
    for each in found:
        if each.producer_id not in latest or each.last_timestamp_ms > latest[each.producer_id].last_timestamp_ms:
            latest[each.producer_id] = each
    return latest


def _occupancy(found: Sequence[ActiveProducer]) -> list[LedProducers]:
    producers = Counter((each.broker_id, each.topic) for each in found)
    open_ones = Counter((each.broker_id, each.topic) for each in found if each.in_transaction)
    return [
        LedProducers(broker, topic, count, open_ones[broker, topic]) for (broker, topic), count in producers.items()
    ]
