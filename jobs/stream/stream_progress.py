"""The progress of a stream."""

from collections.abc import Mapping
from pathlib import Path

from broker.kafka.offsets import reading
from streaming.checkpoint.spark_files import committed_offsets

_KAFKA_TIMEOUT_S = 10.0


class StreamProgress:
    """A reader of a stream's committed offsets, and of the first and end offsets of a topic."""

    def __init__(self, checkpoint: Path, config: Mapping[str, str], topic: str) -> None:
        self._checkpoint, self._config, self._topic = checkpoint, config, topic

    def committed(self) -> dict[int, int] | None:
        """Return each partition's next offset after the last committed batch; None before the first batch."""
        offsets = committed_offsets(str(self._checkpoint))
        return None if offsets is None else offsets[self._topic]

    def ends(self) -> dict[int, int]:
        """Return the end offset of each partition."""
        return {number: end for number, (_, end) in self.extents().items()}

    def extents(self) -> dict[int, tuple[int, int]]:
        """Return the first and the end offset of each partition."""
        with reading(self._config, self._topic, "newest", _KAFKA_TIMEOUT_S) as (_, extents):
            return extents
