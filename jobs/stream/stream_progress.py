"""How far a stream is: what it has committed, against what its topic holds."""

from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from streaming.checkpoint.spark_files import committed_offsets

_KAFKA_TIMEOUT_S = 10.0


class StreamProgress:
    """Compares what the stream has committed with what its topic holds."""

    def __init__(self, checkpoint: Path, config: Mapping[str, str], topic: str) -> None:
        """Say what to compare.

        Args:
            checkpoint: The stream's checkpoint folder.
            config: confluent-kafka settings of someone who may read the topic.
            topic: The topic it reads.
        """
        self._checkpoint = checkpoint
        self._config = {**config, "group.id": "pid-quota-progress", "enable.auto.commit": "false", "log_level": 0}
        self._topic = topic

    def committed(self) -> dict[int, int] | None:
        """Return the next offset of each partition after the last finished batch, None before the first."""
        offsets = committed_offsets(str(self._checkpoint))
        return None if offsets is None else offsets[self._topic]

    def ends(self) -> dict[int, int]:
        """Return the offset that the next record of each partition will get."""
        return {number: end for number, (_, end) in self.extents().items()}

    def extents(self) -> dict[int, tuple[int, int]]:
        """Return the oldest offset of each partition, and the one that its next record will get."""
        consumer = Consumer(self._config)
        try:
            partitions = consumer.list_topics(self._topic, _KAFKA_TIMEOUT_S).topics[self._topic].partitions
            return {
                number: consumer.get_watermark_offsets(TopicPartition(self._topic, number), _KAFKA_TIMEOUT_S)
                for number in partitions
            }
        finally:
            consumer.close()
