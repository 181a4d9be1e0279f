"""The tap: reads the lines of brokers' classes and writes events to `produce-events`.

Delivery is at least once: the tap saves a position after Kafka has acknowledged all earlier records. After a crash
the tap rereads the lines after this position and marks their events as `repeated`, so that each event counts once.
"""

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from msgspec.structs import replace

from broker.kafka.topics import await_topic
from broker.log.sources import Source, SourceCounters
from broker.tap.asking import AskBrokers, Asking
from broker.tap.block_watch import BlockWatch
from broker.tap.broker_watch import LineCounters
from broker.tap.heartbeats import HEARTBEAT_S, Heartbeats
from broker.tap.learning_requests import LearningRequests
from broker.tap.position_file import Checkpoint, load_checkpoint, save_checkpoint
from broker.tap.tap_output import TapOutput
from broker.tap.watches import Watches
from wire.heartbeat import TapHeartbeat
from wire.topics import PRODUCE_EVENTS, TAP_STATUS

_POLL_S = 0.05
_SAVE_INTERVAL_S = 1.0
_ROUND_FLUSH_TIMEOUT_S = 1.0
_FLUSH_TIMEOUT_S = 15.0


@dataclass
class TapCounters(SourceCounters, LineCounters):
    """A tap's counters over all its brokers. `bad_lines` counts truncated, damaged and foreign lines."""

    bad_lines: int = 0


class SourceTap:
    """A tap of one source.

    The tap learns for `learn_seconds`, or until `ask` returns.
    """

    def __init__(
        self,
        source: Source,
        kafka_config: Mapping[str, str],
        *,
        topic: str = PRODUCE_EVENTS,
        position_file: Path | None = None,
        learn_seconds: float = 0,
        wall_clock: Callable[[], float] = time.time,
        on_heartbeat: Callable[[TapHeartbeat], None] | None = None,
        metadata_log: Path | None = None,
        ask: AskBrokers | None = None,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._source = source
        self._kafka_config = dict(kafka_config)
        self._topic = topic
        self._position_file = position_file
        learn_ms = round(learn_seconds * 1000)
        answer_file = position_file and position_file.with_name(position_file.name + ".known-ids")
        self._asking = Asking(ask, learn_ms, answer_file, warn, wall_clock) if ask and learn_ms else None
        self._requests = LearningRequests(kafka_config, warn, wall_clock)
        self._heartbeats = Heartbeats(source.kind, wall_clock, on_heartbeat, warn)
        self._watches = Watches(learn_ms=learn_ms, own_topic=topic, warn=warn)
        here = source.brokers[0] if source.kind == "file" else None
        self._blocks = BlockWatch(metadata_log, here, warn)
        self._committed: Checkpoint | None = None
        self.idle_rounds = 0
        """Number of consecutive rounds without new lines and with all events delivered."""

    @property
    def counters(self) -> TapCounters:
        """The current counters."""
        of_lines = asdict(self._watches.counters)
        return TapCounters(**of_lines, **asdict(self._source.counters), bad_lines=self._watches.bad_lines)

    def run(self, stop: threading.Event) -> None:
        """Follow the source until `stop` is set, then deliver all events and save the position.

        Raises:
            BrokerUnreachableError: If no broker answers at the start.
            TopicMissingError: If one of our topics does not exist.
            TapError: If the source or position file can't be read, lines come from another broker, or Kafka refused
                an event.
        """
        for topic in (self._topic, TAP_STATUS):
            await_topic(self._kafka_config, topic)
        output = TapOutput(self._kafka_config, self._topic)
        try:
            self._restore()
            self._follow(output, stop)
            self._end(output, stop)
        finally:
            if self._asking is not None:
                self._asking.close()
            self._requests.close()
            self._source.close()
            output.close()

    def _restore(self) -> None:
        saved = load_checkpoint(self._position_file) if self._position_file else None
        self._committed = saved
        for broker_id in self._source.brokers:
            self._watches.of(broker_id)
        if saved is None:
            self._source.open(None, None)
            return
        if self._asking is not None:
            self._asking.load()
        self._watches.restore(saved.watches)
        self._blocks.follower.position = saved.blocks
        self._source.open(saved.position, saved.sent_up_to)

    def _follow(self, output: TapOutput, stop: threading.Event) -> None:
        self._commit(output, stop, _ROUND_FLUSH_TIMEOUT_S)
        saved_at = heartbeat_at = -math.inf
        while not stop.is_set():
            if self._asking is not None:
                now = time.monotonic()
                self._asking.step(self._watches.by_name, now, stop, self._requests.newest_ms(now))
            is_idle = not self._read(output, stop)
            output.check()
            now = time.monotonic()
            if now - heartbeat_at >= HEARTBEAT_S:
                self._send_heartbeats(output, stopped=False)
                heartbeat_at = now
            if is_idle or now - saved_at >= _SAVE_INTERVAL_S:
                # A broker may be restarting. Kafka may then acknowledge the records in the next round.
                settled = self._commit(output, stop, _ROUND_FLUSH_TIMEOUT_S) == 0
                saved_at = now
                self.idle_rounds = self.idle_rounds + 1 if settled and is_idle else 0
            if is_idle:
                stop.wait(_POLL_S)
            else:
                self.idle_rounds = 0

    def _read(self, output: TapOutput, stop: threading.Event) -> bool:
        """Send the records of new lines. Return whether there were new lines."""
        batches = self._source.read()
        if batches:
            self._mark_send_limit()
        for batch in batches:
            for record in self._watches.take(batch):
                output.send(record, stop.is_set)
        for block in self._blocks.read(self._watches, time.monotonic()):
            output.send(block, stop.is_set)
        output.send_events(stop.is_set)
        return bool(batches)

    def _end(self, output: TapOutput, stop: threading.Event) -> None:
        left = self._commit(output, stop, _FLUSH_TIMEOUT_S)
        if left:
            raise output.undelivered(left)
        self._send_heartbeats(output, stopped=True)
        output.flush(_FLUSH_TIMEOUT_S)

    def _send_heartbeats(self, output: TapOutput, *, stopped: bool) -> None:
        self._heartbeats.send(output, self._source, self._watches, asdict(self.counters), stopped=stopped)

    def _mark_send_limit(self) -> None:
        """Save the position after this round's lines. After a crash, events up to this position may have been sent."""
        if self._position_file is not None and self._committed is not None:
            self._committed = replace(self._committed, sent_up_to=self._source.position)
            save_checkpoint(self._position_file, self._committed)

    def _commit(self, output: TapOutput, stop: threading.Event, timeout_s: float) -> int:
        """Deliver all events, then save the position. Return the number of undelivered records."""
        output.send_events(stop.is_set)
        left = output.flush(timeout_s)
        position = self._source.position
        if left or self._position_file is None or position is None:
            return left
        checkpoint = Checkpoint(position, None, self._watches.saved(), self._blocks.follower.position)
        if checkpoint != self._committed:
            save_checkpoint(self._position_file, checkpoint)
            self._committed = checkpoint
        return 0
