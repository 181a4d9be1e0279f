"""Decodes raw lines, and passes each line to its broker's watch."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple

from broker.errors import TapError
from broker.kafka.tail import BAD_VALUE_ERRORS
from broker.log.sources import LineBatch
from broker.tap.broker_watch import BrokerWatch, LineCounters, SavedWatch
from wire.broker_lines import MAX_LINE_BYTES, Line, decode_line
from wire.records import ProduceEvent, ProducerInit

_BAD_SAMPLES = 8
_BAD_SAMPLE_BYTES = 200


class Watches:
    """A tap's watches, one per broker."""

    def __init__(self, *, learn_ms: int, own_topic: str, warn: Callable[[str], None] = lambda _: None) -> None:
        self.by_name: dict[str, BrokerWatch] = {}
        self.bad_lines = 0
        self.bad_samples: deque[str] = deque(maxlen=_BAD_SAMPLES)
        self._by_id: dict[int, BrokerWatch] = {}
        self._learn_ms, self._own_topic, self._warn = learn_ms, own_topic, warn

    @property
    def counters(self) -> LineCounters:
        """Counters, summed over all brokers."""
        each = [astuple(watch.counters) for watch in list(self._by_id.values())]
        return LineCounters(*map(sum, zip(*each, strict=True)))

    def of(self, broker_id: int) -> BrokerWatch:
        """Return a broker's watch. A missing watch is created."""
        watch = self._by_id.get(broker_id)
        if watch is None:
            watch = BrokerWatch(broker_id, learn_ms=self._learn_ms, own_topic=self._own_topic, warn=self._warn)
            self._by_id[broker_id] = self.by_name[str(broker_id)] = watch
        return watch

    def take(self, batch: LineBatch) -> Iterator[ProduceEvent | ProducerInit]:
        """Yield the records of a batch of lines."""
        if batch.after_loss:
            self._lose(batch.stream)
        for raw in batch.lines:
            if len(raw) > MAX_LINE_BYTES:
                # The class writes no line of this size. A record of such a line might be too large for Kafka.
                self._bad(raw, batch.stream)
                continue
            try:
                line = decode_line(raw)
            except BAD_VALUE_ERRORS:
                self._bad(raw, batch.stream)
                continue
            record = self._watch(line, batch).take(line, repeated=batch.repeated)
            if record is not None:
                yield record

    def saved(self) -> dict[int, SavedWatch]:
        """Return the state to save, by broker id."""
        return {broker_id: watch.saved() for broker_id, watch in self._by_id.items()}

    def restore(self, saved: Mapping[int, SavedWatch]) -> None:
        """Resume from a saved state."""
        for broker_id, each in saved.items():
            self.of(broker_id).restore(each)

    def _watch(self, line: Line, batch: LineBatch) -> BrokerWatch:
        if batch.broker_id is not None and line.broker_id != batch.broker_id:
            msg = (
                f"a line of broker {line.broker_id} is among those of broker {batch.broker_id}: "
                f"let each broker write a file of its own, or correct --broker-id"
            )
            raise TapError(msg)
        watch = self._by_id.get(line.broker_id) or self.of(line.broker_id)
        watch.stream = batch.stream
        return watch

    def _bad(self, raw: bytes, stream: str) -> None:
        self.bad_lines += 1
        self.bad_samples.append(raw[:_BAD_SAMPLE_BYTES].decode(errors="replace"))
        self._lose(stream)

    def _lose(self, stream: str) -> None:
        for watch in self._by_id.values():
            if watch.stream == stream:
                watch.lose()
