"""The watch of one broker: converts the broker's lines to records, and marks events as learning."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from broker.errors import TapError
from broker.tap.known_ids import NO_ANSWERS
from broker.tap.learning import LearningTime
from broker.tap.line_order import LineOrder, Place
from broker.tap.once import Once
from wire.broker_lines import LINE_FORMAT, BatchLine, ClassState, InitLine, Line, StopLine
from wire.records import ProduceEvent, ProducerInit

_TAKEN_OUT = "the class was unloaded from the broker, so its producers are not seen: load it again (metric.reporters)"


@dataclass
class LineCounters:
    """Counters of a broker's lines since the tap's start. The last five are counters of the class (see `ClassState`).

    `own_topics` counts batches of the tap's own topic. `duplicates` counts lines that a shipper delivered again.
    """

    events: int = 0
    inits: int = 0
    id_blocks: int = 0
    own_topics: int = 0
    duplicates: int = 0
    lost_lines: int = 0
    dropped_lines: int = 0
    dropped_inits: int = 0
    ambiguous_inits: int = 0
    class_errors: int = 0
    forgotten_ticks: int = 0


class SavedWatch(msgspec.Struct, frozen=True):
    """The state of a watch in the position file."""

    order: LineOrder
    learning: LearningTime
    stream: str = ""


class BrokerWatch:
    """The watch of one broker. It learns for `learn_ms`, and skips batches of `own_topic`."""

    def __init__(
        self, broker_id: int, *, learn_ms: int = 0, own_topic: str = "", warn: Callable[[str], None] = lambda _: None
    ) -> None:
        self.broker_id = broker_id
        self.stream = ""
        self.learning = LearningTime()
        self.answers = NO_ANSWERS
        self.counters = LineCounters()
        self.state: ClassState | None = None
        """The last state that the class reported, or None."""
        self.problem: str | None = None
        """Why the class can't see any batch, or None."""
        self._order = LineOrder()
        self._learn_ms, self._own_topic, self._warn_once = learn_ms, own_topic, Once(warn)

    @property
    def newest_line_ms(self) -> int | None:
        """Time of the newest line, or None."""
        return self.learning.newest_ms if self.learning.newest_ms >= 0 else None

    def take(self, line: Line, *, repeated: bool = False) -> ProduceEvent | ProducerInit | None:
        """Process the next line; return its record, or None. If `repeated`, a crashed tap may have sent the record."""
        place = self._order.follow(line)
        if place is Place.DUPLICATE:
            self.counters.duplicates += 1
            return None
        if place is Place.AFTER_LOSS:
            self.counters.lost_lines += sum(last - first + 1 for first, last in self._order.gaps[-1:])
            self.learning.restart()
        if isinstance(line, BatchLine):
            return self._event(line, repeated)
        self.learning.observe(line.timestamp_ms, self._learn_ms)
        if isinstance(line, InitLine):
            self.counters.inits += 1
            return _init(line, repeated)
        self._note(line)
        return None

    def lose(self) -> None:
        """Restart the watch with the next line, because earlier lines may be missing."""
        self._order.forget()
        self.learning.restart()

    def saved(self) -> SavedWatch:
        """Return the state to save."""
        return SavedWatch(msgspec.structs.replace(self._order), msgspec.structs.replace(self.learning), self.stream)

    def restore(self, saved: SavedWatch) -> None:
        """Resume from a saved state."""
        self._order = msgspec.structs.replace(saved.order)
        self.learning, self.stream = msgspec.structs.replace(saved.learning), saved.stream

    def _event(self, line: BatchLine, repeated: bool) -> ProduceEvent | None:
        learning, asked_at_ms = self.learning.is_learning(line.timestamp_ms, self._learn_ms), None
        if line.topic == self._own_topic:
            self.counters.own_topics += 1
            return None
        if self.answers is not NO_ANSWERS:
            since_ms = self.learning.since_ms
            learning, asked_at_ms = self.answers.check(line.producer_id, line.timestamp_ms, since_ms, learning=learning)
        self.counters.events += 1
        return ProduceEvent(
            line.timestamp_ms,
            line.principal,
            line.producer_id,
            line.producer_epoch,
            line.broker_id,
            line.topic,
            line.partition,
            line.client_id or None,
            line.transactional_id,
            False,
            repeated,
            learning,
            asked_at_ms,
            line.address,
        )

    def _note(self, state: ClassState) -> None:
        self._check_format(state)
        if self._order.drops_more(state):
            self.learning.restart()
        self.state = state
        counters = self.counters
        counters.dropped_lines, counters.dropped_inits = state.dropped_lines, state.dropped_inits
        counters.ambiguous_inits, counters.class_errors = state.ambiguous_inits, state.errors
        counters.forgotten_ticks = state.forgotten_ticks
        self.problem = state.problem
        if isinstance(state, StopLine) and not state.shutdown:
            self.learning.restart()
            self.problem = _TAKEN_OUT
        self._warn_once(f"broker {self.broker_id}: {self.problem}" if self.problem else None)

    def _check_format(self, state: ClassState) -> None:
        if state.format == LINE_FORMAT:
            return
        remedy = "upgrade the tap" if state.format > LINE_FORMAT else "upgrade the class (pid-quota broker-jar)"
        msg = (
            f"the class in broker {self.broker_id} (version {state.class_version or 'unknown'}) writes lines of format "
            f"{state.format}, and this tap reads format {LINE_FORMAT}: {remedy}; the tap then resumes where it stopped"
        )
        raise TapError(msg)


def _init(line: InitLine, repeated: bool) -> ProducerInit:
    return ProducerInit(
        line.timestamp_ms,
        line.broker_id,
        line.principal,
        line.client_id or "",
        line.address,
        line.transactional_id,
        line.producer_id,
        line.producer_epoch,
        line.result_producer_id,
        line.result_producer_epoch,
        line.error,
        repeated,
    )
