"""Reads the compacted topic `pid-quota-requests`, in which streams request that taps ask the brokers for known ids.

Without the topic, streams learn for a whole window. A tap asks the brokers at most once a minute.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping

import msgspec
from confluent_kafka import Message

from broker.closing import Closing
from broker.errors import BrokerError
from broker.kafka.tail import BAD_VALUE_ERRORS, TopicReader
from broker.kafka.topics import ensure_topic
from broker.tap.once import Once
from wire.records import LearningRequest
from wire.topics import LEARNING_REQUESTS

_TIMEOUT_S = 5.0
_REOPEN_S = 60.0
_MAX_AHEAD = 1000

_log = logging.getLogger(__name__)
_decode = msgspec.json.Decoder(LearningRequest).decode


class LearningRequests(Closing):
    """A tap's reader of `pid-quota-requests`."""

    def __init__(
        self,
        config: Mapping[str, str],
        warn: Callable[[str], None] = lambda _: None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._config, self._warn_once, self._wall_clock = dict(config), Once(warn), wall_clock
        self._topic: TopicReader | None = None
        self._requests = _Requests()
        self._open_at = 0.0

    def newest_ms(self, now_s: float) -> int:
        """Return the time of the newest request, in ms rounded up to whole seconds; 0 if no stream still learns."""
        try:
            if self._topic is not None:
                self._take(self._topic.poll())
            elif now_s >= self._open_at:
                self._open_at = now_s + _REOPEN_S
                ensure_topic(self._config, LEARNING_REQUESTS, _TIMEOUT_S)
                self._topic = TopicReader(self._config, LEARNING_REQUESTS, _TIMEOUT_S)
                self._take(self._topic.read_to_end())
        except BrokerError as error:
            self.close()
            self._warn_once(
                f"streams that lost producer ids learn for a window, because their requests can't be read: {error}"
            )
        return self._requests.newest_ms(self._wall_clock() * 1000)

    def close(self) -> None:
        """Close the consumer."""
        topic, self._topic = self._topic, None
        if topic is not None:
            topic.close()

    def _take(self, messages: Iterable[Message]) -> None:
        for message in messages:
            value = message.value()
            if not value:
                continue
            try:
                self._requests.add(_decode(value), self._wall_clock() * 1000)
            except BAD_VALUE_ERRORS:
                _log.warning("ignored a bad record of topic %s: %r", LEARNING_REQUESTS, value[:200])


class _Requests:
    """The newest request that is due. An answer to this request also covers all earlier requests."""

    def __init__(self) -> None:
        self._newest_ms = self._until_ms = 0
        self._ahead: list[tuple[int, int]] = []
        """Requests from hosts whose clocks are ahead: when each is due, and when it ends."""

    def add(self, request: LearningRequest, now_ms: float) -> None:
        # Streams count whole seconds. A request from a host whose clock is ahead waits until our clock shows its time,
        # because an earlier answer must not count for ids that were lost later.
        due_ms = -(-request.learns_from_ms // 1000) * 1000
        if now_ms >= request.learns_until_ms:
            return
        if due_ms <= now_ms:
            self._take(due_ms, request.learns_until_ms)
            return
        self._ahead.append((due_ms, request.learns_until_ms))
        if len(self._ahead) > _MAX_AHEAD:
            # Keep the requests that are due first.
            self._ahead = sorted(self._ahead)[:_MAX_AHEAD]

    def newest_ms(self, now_ms: float) -> int:
        """Return the time of the newest due request; 0 if all requests have ended."""
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
