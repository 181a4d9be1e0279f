"""The tap: follows a broker's log and writes who produced with which producer id to the topic `produce-events`.

One tap per broker, on the broker's machine. It delivers each event at least once: the position is saved only after
Kafka has taken all events before it. What is sent twice changes nothing downstream, since a producer id counts once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from confluent_kafka import KafkaError, Message, Producer

from broker.attribution import Attribution, AttributionCounters, ProduceEvent
from broker.errors import LogLineError, TapDeliveryError
from broker.log_file import LogFile, Position, load_position, save_position
from broker.log_lines import parse_line
from broker.topics import PRODUCE_EVENTS, require_topic

# What came before the place where we begin tells what the threads were working on there, and the latest bindings.
_CONTEXT_BYTES = 1024 * 1024
_POLL_S = 0.1
_SAVE_INTERVAL_S = 1.0
_ROUND_FLUSH_TIMEOUT_S = 1.0
_FLUSH_TIMEOUT_S = 15.0
_QUEUE_FULL_WAIT_S = 0.1

_PRODUCER_SETTINGS: dict[str, str | int | float | bool] = {
    "client.id": "pid-quota-tap",
    # In order and without repeats: the events of a principal stay in the order of the log.
    "enable.idempotence": True,
    "linger.ms": 20,
    "compression.type": "lz4",
    # That of the Java clients, so that other writers of such events put a principal into the same partition.
    "partitioner": "murmur2_random",
    # Success needs no callback of ours: `flush` tells that nothing is left.
    "delivery.report.only.error": True,
    # Errors only: that the coordinator of a fresh broker still loads is nothing to write home about.
    "log_level": 3,
}


@dataclass(frozen=True)
class TapCounters:
    """What a tap has done since its start; see `AttributionCounters` for the lower half.

    Attributes:
        lines: read, of any kind.
        bad_lines: that are not what the appender writes.
        rotations: times the log began a new file.
        truncations: times the log was cut.
        events: handed to Kafka.
        unplaced: of these, with principal `unknown`.
        borrowed: of these, with a producer id handed out to another principal.
        followers: batches copied by a replica, not events.
        recovered: batches replayed after an unclean stop, not events.
        other_threads: batches appended otherwise, not events.
        own_topics: batches of our own and internal topics, not events.
        bindings: producer ids seen handed out.
        unmatched_results: answers to INIT_PRODUCER_ID without their request.
    """

    lines: int
    bad_lines: int
    rotations: int
    truncations: int
    events: int
    unplaced: int
    borrowed: int
    followers: int
    recovered: int
    other_threads: int
    own_topics: int
    bindings: int
    unmatched_results: int


class Tap:
    """Follows one log file until it is told to stop."""

    def __init__(
        self,
        log_file: Path,
        broker_id: int,
        kafka_config: Mapping[str, str],
        *,
        topic: str = PRODUCE_EVENTS,
        from_end: bool = False,
        position_file: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is opened yet.

        Args:
            log_file: what `log4j2-pid-quota.yaml` makes the broker write; may appear later.
            broker_id: node id of that broker, for the events.
            kafka_config: confluent-kafka settings of someone who may write `topic`.
            topic: where the events go.
            from_end: without a saved position, begin at the end of the file instead of at its beginning.
            position_file: where the position is kept across runs; none is kept if left out.
            clock: seconds, for the interval of saving; tests replace it.
        """
        self._log_file = log_file
        self._kafka_config = dict(kafka_config)
        self._topic = topic
        self._from_end = from_end
        self._position_file = position_file
        self._clock = clock
        self._file = LogFile(log_file)
        # Also under a name of the user's choice our own traffic must not make events.
        self._attribution = Attribution(broker_id, own_topics=frozenset({topic}))
        self._encoder = msgspec.json.Encoder()
        self._new_from = 0
        self._lines = 0
        self._bad_lines = 0
        self._unsaved = False
        self._saved: Position | None = None
        self._idle_rounds = 0
        self._delivery_error: KafkaError | None = None

    def __repr__(self) -> str:
        return f"Tap({str(self._log_file)!r}, topic={self._topic!r})"

    @property
    def counters(self) -> TapCounters:
        """A copy of the counters as they are now."""
        of_lines = vars(self._attribution.counters)
        bad_lines = self._bad_lines + self._file.oversized_lines + of_lines["bad_lines"]
        rest = {name: count for name, count in of_lines.items() if name != "bad_lines"}
        return TapCounters(self._lines, bad_lines, self._file.rotations, self._file.truncations, **rest)

    @property
    def idle_rounds(self) -> int:
        """How often in a row the tap found nothing new, all events delivered; 0 while it is at work."""
        return self._idle_rounds

    def run(self, stop: threading.Event) -> None:
        """Follow the log until `stop` is set; then deliver what was read and save the position.

        Raises:
            BrokerUnreachableError: no Kafka broker answers at the start.
            TopicMissingError: `topic` is not there.
            TapError: the log or the position file cannot be read.
            TapDeliveryError: Kafka did not take an event; the position before it is kept, so it is sent again.
        """
        require_topic(self._kafka_config, self._topic)
        producer = Producer({**self._kafka_config, **_PRODUCER_SETTINGS}, on_delivery=self._on_delivery)
        position = load_position(self._position_file) if self._position_file else None
        self._new_from = self._file.open_at(position, from_end=self._from_end, context_bytes=_CONTEXT_BYTES)
        try:
            self._follow(producer, stop)
            left = self._settle(producer, _FLUSH_TIMEOUT_S)
            if left:
                raise self._undelivered(left)
        finally:
            self._file.close()

    def _follow(self, producer: Producer, stop: threading.Event) -> None:
        saved_at = self._clock()
        while not stop.is_set():
            begin = self._file.position
            lines = self._file.read()
            if self._new_from:
                lines = self._without_context(lines, begin.offset if begin else 0)
            for line in lines:
                self._take(line, producer, stop)
            self._check_delivery(producer)
            if not lines or self._clock() - saved_at >= _SAVE_INTERVAL_S:
                # What Kafka did not take yet, it may take in the next round: a broker may be away for a restart.
                settled = self._settle(producer, _ROUND_FLUSH_TIMEOUT_S) == 0
                saved_at = self._clock()
                self._idle_rounds = self._idle_rounds + 1 if settled and not lines else 0
            if lines:
                self._idle_rounds = 0
            else:
                stop.wait(_POLL_S)

    def _take(self, line: bytes, producer: Producer, stop: threading.Event) -> None:
        self._lines += 1
        # Whoever lets other loggers write to the same file pays this look, not the decoding.
        if b"KafkaApi" not in line and b"ProducerStateManager" not in line:
            return
        try:
            event = self._attribution.feed(parse_line(line))
        except LogLineError:
            self._bad_lines += 1
            return
        if event is not None:
            self._send(event, producer, stop)

    def _send(self, event: ProduceEvent, producer: Producer, stop: threading.Event) -> None:
        value = self._encoder.encode(event)
        while True:
            try:
                producer.produce(self._topic, value=value, key=event.principal.encode())
            except BufferError:
                # Kafka is slower than the log: wait for it, the log is on disk.
                producer.poll(_QUEUE_FULL_WAIT_S)
                self._check_delivery(producer)
                if stop.is_set():
                    raise self._undelivered(len(producer)) from None
            else:
                self._unsaved = True
                return

    def _without_context(self, lines: list[bytes], begin: int) -> list[bytes]:
        """Learn from the lines that a former run has handled already, hand back the others."""
        for index, line in enumerate(lines):
            if begin >= self._new_from:
                self._context_ends()
                return lines[index:]
            begin += len(line) + 1
            try:
                self._attribution.feed(parse_line(line))
            except LogLineError:
                # Counted by the run that handled it.
                continue
        if not lines:
            self._context_ends()
        return []

    def _context_ends(self) -> None:
        self._new_from = 0
        self._attribution.counters = AttributionCounters()

    def _settle(self, producer: Producer, timeout_s: float) -> int:
        """Deliver everything that was read, then save the position behind it; returns how many events are left."""
        if self._unsaved:
            left = producer.flush(timeout_s)
            self._check_delivery(producer)
            if left:
                return left
            self._unsaved = False
        position = self._file.position
        if self._position_file is None or position is None or self._new_from or position == self._saved:
            return 0
        save_position(self._position_file, position)
        self._saved = position
        return 0

    def _undelivered(self, left: int) -> TapDeliveryError:
        return TapDeliveryError(
            f"{left} events were not taken by {self._kafka_config['bootstrap.servers']} before the tap had to stop: "
            f"check the broker and start the tap again, it goes on before them"
        )

    def _check_delivery(self, producer: Producer) -> None:
        producer.poll(0)
        if self._delivery_error is not None:
            msg = (
                f"an event was refused by topic {self._topic!r} ({self._delivery_error.str()}): "
                f"check the topic's settings and the right to write it, then start the tap again"
            )
            raise TapDeliveryError(msg)

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._delivery_error = error
