"""The compacted topic `producer-principals`: bindings of producer ids, shared by the taps of all brokers.

A record's own time is when a binding was announced, its `timestamp_ms` when the id was handed out. A tap announces each
hand-out it sees, and each binding in use once a day, since the topic retains eight days. Reading a binding never causes
a write.
"""

from collections.abc import Iterable, Mapping

import msgspec
from confluent_kafka import Message

from broker.attribution.owners import Owners
from broker.cluster.topic_reader import TopicReader
from wire.records import Binding, ProduceEvent
from wire.topics import PRODUCER_PRINCIPALS

_decode = msgspec.json.Decoder(Binding).decode


class BindingTopic:
    """Feeds `Owners` from the topic."""

    def __init__(self, config: Mapping[str, str], owners: Owners) -> None:
        """Open the topic.

        Args:
            config: confluent-kafka settings of a user with READ.
            owners: receives the bindings.

        Raises:
            BrokerUnreachableError: no broker answers.
            TopicMissingError: there is no such topic.
        """
        self._owners = owners
        self._topic = TopicReader(config, PRODUCER_PRINCIPALS)
        self.read = 0
        self.bad_records = 0

    def load(self) -> list[ProduceEvent]:
        """Read the whole topic; return the batches that waited for its bindings."""
        return self._learn(self._topic.read_to_end())

    def poll(self) -> list[ProduceEvent]:
        """Read new records; return the batches that waited for them, and corrections."""
        return self._learn(self._topic.poll())

    def close(self) -> None:
        """Close the consumer."""
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
                # Rule 1 attributes its batches: no binding is needed.
                continue
            out += self._owners.bind(binding, hot=False) or ()
            announced_ms = message.timestamp()[1]
            if announced_ms > binding.timestamp_ms:
                self._owners.announced(binding.producer_id, announced_ms)
        return out
