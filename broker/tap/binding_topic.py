"""The compacted topic `producer-principals`: what the taps of all brokers know of whom producer ids were handed out to.

The record's own time is when a binding was announced, its `timestamp_ms` when the id was handed out. Whoever sees an id
handed out announces it; a tap that sees one in use announces it anew each day, since the topic forgets after eight.
Nothing that was read is written because it was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from confluent_kafka import Message

from broker.attribution.owners import Owners
from broker.cluster.topic_reader import TopicReader
from wire.records import Binding, ProduceEvent
from wire.topics import PRODUCER_PRINCIPALS

_decode = msgspec.json.Decoder(Binding).decode


class BindingTopic:
    """Keeps `Owners` up to date."""

    def __init__(self, config: Mapping[str, str], owners: Owners) -> None:
        """Open the topic.

        Args:
            config: confluent-kafka settings of someone who may read it.
            owners: who is told.

        Raises:
            BrokerUnreachableError: no broker answers.
            TopicMissingError: there is no such topic.
        """
        self._owners = owners
        self._topic = TopicReader(config, PRODUCER_PRINCIPALS)
        self.read = 0
        self.bad_records = 0

    def load(self) -> list[ProduceEvent]:
        """Learn all that is there; hands back the batches that waited for it."""
        return self._learn(self._topic.read_to_end())

    def poll(self) -> list[ProduceEvent]:
        """Learn what came since; hands back the batches that waited for it, and corrections."""
        return self._learn(self._topic.poll())

    def close(self) -> None:
        """End it."""
        self._topic.close()

    def _learn(self, messages: Iterable[Message]) -> list[ProduceEvent]:
        out: list[ProduceEvent] = []
        for message in messages:
            value = message.value()
            if value is None:
                continue
            try:
                binding = _decode(value)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self.bad_records += 1
                continue
            self.read += 1
            if binding.transactional_id is None:
                # The thread tells whose its batches are.
                continue
            out += self._owners.bind(binding, hot=False) or ()
            announced_ms = message.timestamp()[1]
            if announced_ms > binding.timestamp_ms:
                self._owners.announced(binding.producer_id, announced_ms)
        return out
