"""The compacted topic `pid-quota-requests`: streams announce their ticks, and request of all taps to ask the brokers.

Without the topic, or the right to use it, streams learn by waiting, and taps leave out repeats of a second only.
Whoever can write it can make taps ask once a minute, and leave out repeats within a minute or none, no more.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping

import msgspec
from confluent_kafka import KafkaError, Message, Producer

from broker.attribution.ticks import MILLISECONDS, SECONDS, Ticks
from broker.closing import Closing
from broker.cluster.topic_reader import TopicReader
from broker.cluster.topics import ensure_topic
from broker.errors import BrokerError
from wire.learning_request import LearningRequest
from wire.topics import LEARNING_REQUESTS, LEARNING_REQUESTS_SETTINGS

_TIMEOUT_S = 5.0
_REOPEN_S = 60.0
_MOST_STREAMS = 1000
_MOST_QUANTUM_MS = 2**53

_UNREQUESTED = "can't request of the taps to ask the brokers (%s): this stream learns by waiting. Grant WRITE on %s"
_UNANNOUNCED = "can't announce this stream's ticks (%s): taps leave out repeats of a second only. Grant WRITE on %s"

_log = logging.getLogger(__name__)
_decode = msgspec.json.Decoder(LearningRequest).decode


class LearningRequests(Closing):
    """Follows the topic for a tap.

    Args:
        config: confluent-kafka settings of a user with READ, and CREATE if the topic is missing.
        events_topic: of the tap's events.
        say: called with a line for the operator if it can't be read.
        wall_clock: seconds since the epoch.
    """

    def __init__(
        self,
        config: Mapping[str, str],
        events_topic: str,
        say: Callable[[str], None] = lambda _: None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._config, self._say, self._wall_clock = dict(config), say, wall_clock
        self._events_topic = events_topic
        self.ticks = SECONDS
        """Within which a repeat changes nothing, whichever stream reads it."""
        self._announced: dict[bytes, tuple[int, int]] = {}
        self._topic: TopicReader | None = None
        self._requests = _Requests()
        self._open_at = 0.0
        self._told = ""

    def newest_ms(self, now_s: float) -> int:
        """Return when the last stream began to learn that still does, in whole seconds; 0 if none does.

        Args:
            now_s: monotonic clock, in seconds.
        """
        try:
            if self._topic is not None:
                self._take(self._topic.poll())
            elif now_s >= self._open_at:
                self._open_at = now_s + _REOPEN_S
                ensure_topic(self._config, LEARNING_REQUESTS, LEARNING_REQUESTS_SETTINGS, _TIMEOUT_S)
                self._topic = TopicReader(self._config, LEARNING_REQUESTS, _TIMEOUT_S)
                self._take(self._topic.read_to_end())
        except BrokerError as error:
            self.close()
            text = (
                "streams that forgot producer ids learn by waiting, and of repeats only those within a second are left "
                f"out, since nothing that streams write is seen: {error}"
            )
            if text != self._told:
                self._say(text)
                self._told = text
        return self._requests.newest_ms(self._wall_clock() * 1000)

    def close(self) -> None:
        """Close the consumer."""
        topic, self._topic = self._topic, None
        if topic is not None:
            topic.close()

    def _take(self, messages: Iterable[Message]) -> None:
        for message in messages:
            key, value = message.key() or b"", message.value()
            self._announced.pop(key, None)
            if not value:
                continue
            try:
                request = _decode(value)
                self._requests.add(request, self._wall_clock() * 1000)
                if request.events_topic == self._events_topic and len(self._announced) < _MOST_STREAMS:
                    self._announced[key] = _ticks_of(request)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
                _log.warning("ignored a bad record of topic %s: %r", LEARNING_REQUESTS, value[:200])
        # Beyond that many some are not kept, so only what changes nothing in any stream is left out.
        all_kept = len(self._announced) < _MOST_STREAMS
        self.ticks = Ticks.of(self._announced.values()) if all_kept else MILLISECONDS


def _ticks_of(request: LearningRequest) -> tuple[int, int]:
    if not 1 <= request.ticks <= request.quantum_ms <= _MOST_QUANTUM_MS:
        msg = f"{request.ticks} ticks in {request.quantum_ms} ms"
        raise ValueError(msg)
    return request.quantum_ms, request.ticks


class _Requests:
    """The newest request that is due: its answer does for all before it.

    So nothing is kept per stream, and however many requests somebody forges, none hides that of a stream.
    """

    def __init__(self) -> None:
        self._newest_ms = self._until_ms = 0
        self._ahead: list[tuple[int, int]] = []
        """When requests of clocks ahead of ours are due, and when they end."""

    def add(self, request: LearningRequest, now_ms: float) -> None:
        """Take a request, unless it is over."""
        # Streams count whole seconds. One whose clock is ahead waits until ours has come there: an answer from before
        # must not pass for one to what it lost since.
        due_ms = -(-request.learns_from_ms // 1000) * 1000
        if now_ms >= request.learns_until_ms:
            return
        if due_ms <= now_ms:
            self._take(due_ms, request.learns_until_ms)
            return
        self._ahead.append((due_ms, request.learns_until_ms))
        if len(self._ahead) > _MOST_STREAMS:
            # The nearest: when they are due, their answer does for what was due with them.
            self._ahead = sorted(self._ahead)[:_MOST_STREAMS]

    def newest_ms(self, now_ms: float) -> int:
        """Return when the newest that is due began, 0 if all are over."""
        if self._ahead:
            for due_ms, until_ms in self._ahead:
                if due_ms <= now_ms < until_ms:
                    self._take(due_ms, until_ms)
            self._ahead = [each for each in self._ahead if each[0] > now_ms]
        if now_ms >= self._until_ms:
            self._newest_ms = 0
        return self._newest_ms

    def _take(self, due_ms: int, until_ms: int) -> None:
        self._newest_ms = max(self._newest_ms, due_ms)
        self._until_ms = max(self._until_ms, until_ms)


def request_writer(config: Mapping[str, str]) -> Callable[[str, LearningRequest], None]:
    """Return a function that writes what a stream says under a key; what can't be written is logged.

    Args:
        config: confluent-kafka settings of a user with WRITE on the topic, and CREATE if it is missing.
    """

    def write(key: str, request: LearningRequest) -> None:
        reason = _write(config, key, request)
        if reason:
            _log.warning(_UNANNOUNCED if request.events_topic else _UNREQUESTED, reason, LEARNING_REQUESTS)

    return write


def _write(config: Mapping[str, str], key: str, request: LearningRequest) -> str:
    """Write a record; return why it failed, or nothing."""
    errors: list[str] = []

    def note(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            errors.append(error.str())

    try:
        # A record for a missing topic would wait until it times out.
        ensure_topic(config, LEARNING_REQUESTS, LEARNING_REQUESTS_SETTINGS, _TIMEOUT_S)
    except BrokerError as error:
        return str(error)
    # Not idempotent: a stream has no producer id.
    settings = {"enable.idempotence": "false", "acks": "all", "log_level": "0"}
    producer = Producer({**config, **settings, "message.timeout.ms": str(round(_TIMEOUT_S * 1000))})
    producer.produce(LEARNING_REQUESTS, msgspec.json.encode(request), key.encode(), on_delivery=note)
    left = producer.flush(2 * _TIMEOUT_S)
    return errors[0] if errors else "no answer" if left else ""
