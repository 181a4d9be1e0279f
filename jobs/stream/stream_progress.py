"""Progress of a stream: committed offsets against the topic's."""

from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from streaming.checkpoint.spark_files import committed_offsets

_KAFKA_TIMEOUT_S = 10.0


class StreamProgress:
    """Reads a stream's committed offsets and its topic's extents."""

    def __init__(self, checkpoint: Path, config: Mapping[str, str], topic: str) -> None:
        """Take the stream and its topic.

        Args:
            checkpoint: The stream's checkpoint folder.
            config: confluent-kafka settings of a user that may read the topic.
            topic: The topic it reads.
        """
        self._checkpoint = checkpoint
        self._config = {**config, "group.id": "pid-quota-progress", "enable.auto.commit": "false", "log_level": 0}
        self._topic = topic

    def committed(self) -> dict[int, int] | None:
        """Return the next offset of each partition after the last committed batch, None before the first."""
        offsets = committed_offsets(str(self._checkpoint))
        return None if offsets is None else offsets[self._topic]

    def ends(self) -> dict[int, int]:
        """Return the end offset of each partition."""
        return {number: end for number, (_, end) in self.extents().items()}

    def extents(self) -> dict[int, tuple[int, int]]:
        """Return the first and the end offset of each partition."""
        consumer = Consumer(self._config)
        try:
            partitions = consumer.list_topics(self._topic, _KAFKA_TIMEOUT_S).topics[self._topic].partitions
            return {
                number: consumer.get_watermark_offsets(TopicPartition(self._topic, number), _KAFKA_TIMEOUT_S)
                for number in partitions
            }
        finally:
            consumer.close()
