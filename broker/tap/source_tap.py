"""The tap: reads brokers' logs and writes who produced with which producer id to the topic `produce-events`.

One tap per broker, on the broker's machine, or one for many where their logs come in a topic. It delivers each event at
least once: the position is saved only after Kafka has taken all events before it. After a crash it reads again what
came since the last save (a second at most); events of that stretch are marked `repeated`. They change nothing later on,
since a producer id counts once. Over a crash nothing is forgotten: what threads were working on and which batches wait
stands beside the position, bindings stand in their topic.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import asdict, fields
from pathlib import Path

from msgspec.structs import replace

from broker.attribution.attribution import Attribution
from broker.attribution.attribution_counters import AttributionCounters
from broker.attribution.bindings import Bindings
from broker.attribution.owners import WAIT_S, Owners
from broker.cluster.topics import require_topic
from broker.errors import TapError, TopicMissingError
from broker.log.sources import LineBatch, Source
from broker.tap.binding_topic import BindingTopic
from broker.tap.heartbeats import Heartbeats
from broker.tap.log_levels_watch import SILENT_S, LevelsQuestion
from broker.tap.position_file import Checkpoint, load_checkpoint, save_checkpoint
from broker.tap.tap_counters import TapCounters
from broker.tap.tap_output import TapOutput
from broker.tap.tap_run import TapRun
from quota.principals import UNKNOWN_PRINCIPAL
from wire.heartbeat import TapHeartbeat
from wire.records import ProduceEvent, Record
from wire.topics import PRODUCE_EVENTS, PRODUCER_PRINCIPALS, TAP_STATUS

HEARTBEAT_S = 10.0
"""Time between heartbeats."""

_POLL_S = 0.1
_NEW_TOPIC_S = 5.0
_SAVE_INTERVAL_S = 1.0
_ROUND_FLUSH_TIMEOUT_S = 1.0
_FLUSH_TIMEOUT_S = 15.0


class SourceTap:
    """Follows one source until it is told to stop.

    Args:
        source: where the lines come from.
        kafka_config: confluent-kafka settings of someone who may write our topics, and read `producer-principals`.
        topic: where the events go.
        position_file: where the position is kept across runs; none is kept if left out.
        every_batch: also send what was sent in the same second already, which changes nothing downstream.
        wait_s: how long a batch waits for its binding.
        learn_seconds: how long the ids of a newly watched broker are marked `learning`; 0 for never.
        clock: seconds, for intervals; tests replace it.
        wall_clock: seconds since the epoch, for heartbeats.
        on_heartbeat: is shown each heartbeat, in the thread of the tap.
        logging_is_on: asks a silent broker whether its log is on; a long silence is a gap in the watch if left out.
    """

    def __init__(
        self,
        source: Source,
        kafka_config: Mapping[str, str],
        *,
        topic: str = PRODUCE_EVENTS,
        position_file: Path | None = None,
        every_batch: bool = False,
        wait_s: float = WAIT_S,
        learn_seconds: float = 0,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        on_heartbeat: Callable[[TapHeartbeat], None] | None = None,
        logging_is_on: LevelsQuestion | None = None,
    ) -> None:
        self._logging_is_on = logging_is_on
        self._heard_s: dict[str, float] = {}
        self._source = source
        self._kafka_config = dict(kafka_config)
        self._topic = topic
        self._position_file = position_file
        self._every_batch = every_batch
        self._wait_s = wait_s
        self._clock = clock
        self._learn_ms = round(learn_seconds * 1000)
        self._heartbeats = Heartbeats(source.kind, wall_clock, on_heartbeat)
        self._brokers: dict[str, Attribution] = {}
        self._owners: Owners | None = None
        self._committed: Checkpoint | None = None
        self._idle_rounds = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._source!r}, topic={self._topic!r})"

    @property
    def counters(self) -> TapCounters:
        """A copy of the counters as they are now, of all brokers together."""
        of_lines = [each.counters for each in list(self._brokers.values())]
        sums = {
            field.name: sum(getattr(each, field.name) for each in of_lines) for field in fields(AttributionCounters)
        }
        of_owners = asdict(self._owners.counters) if self._owners else {}
        return TapCounters(**sums, **of_owners, **asdict(self._source.counters))

    @property
    def idle_rounds(self) -> int:
        """How often in a row the tap found nothing new, all events delivered; 0 while it is at work."""
        return self._idle_rounds

    def run(self, stop: threading.Event) -> None:
        """Follow the source until `stop` is set; then deliver what was read and save the position.

        Raises:
            BrokerUnreachableError: no Kafka broker answers at the start.
            TopicMissingError: one of our topics is not there.
            TapError: the source or the position file cannot be read.
            TapDeliveryError: Kafka did not take an event; the position before it is kept, so it is sent again.
        """
        for topic in (self._topic, PRODUCER_PRINCIPALS, TAP_STATUS):
            self._require(topic)
        folder = self._position_file.parent if self._position_file else None
        with Bindings(folder) as bindings:
            self._owners = owners = Owners(bindings, wait_s=self._wait_s)
            topic_of_bindings = BindingTopic(self._kafka_config, owners)
            output = TapOutput(self._kafka_config, self._topic)
            try:
                running = TapRun(owners, topic_of_bindings, output, stop)
                self._restore(running)
                self._follow(running)
                self._end(running)
            finally:
                self._source.close()
                topic_of_bindings.close()
                output.close()

    def _require(self, topic: str) -> None:
        give_up_at = time.monotonic() + _NEW_TOPIC_S
        while True:
            try:
                require_topic(self._kafka_config, topic)
            except TopicMissingError:
                # Made a moment ago, perhaps: not every broker knows it yet.
                if time.monotonic() > give_up_at:
                    raise
                time.sleep(_POLL_S)
            else:
                return

    def _restore(self, run: TapRun) -> None:
        # The bindings first: what is read then finds its owner.
        run.bindings.load()
        saved = load_checkpoint(self._position_file) if self._position_file else None
        self._committed = saved
        for stream, broker_id in self._source.streams:
            self._broker(stream, broker_id, run.owners)
        if saved is None:
            self._source.open(None, None)
            return
        for stream, lines in saved.kept_lines.items():
            attribution = self._broker(stream, dict(self._source.streams).get(stream), run.owners)
            attribution.restore(lines, saved.order.get(stream), self._clock())
        for stream, learning in saved.learning.items():
            self._broker(stream, dict(self._source.streams).get(stream), run.owners).learning = learning
        for event in saved.waiting:
            known = run.owners.find(event.producer_id)
            run.owners.wait(replace(event, repeated=True), self._clock())
            if known is not None:
                self._send(run, run.owners.release(known))
        self._source.open(saved.position, saved.sent_up_to)

    def _follow(self, run: TapRun) -> None:
        self._commit(run, _ROUND_FLUSH_TIMEOUT_S)
        saved_at = told_at = -math.inf
        while not run.stop.is_set():
            batches = self._source.read()
            if batches:
                self._mark_send_limit()
            for batch in batches:
                self._take(batch, run)
            now = self._clock()
            for attribution in self._brokers.values():
                self._send(run, attribution.expire(now))
            self._send(run, run.bindings.poll())
            self._send(run, run.owners.expire(now))
            run.output.check()
            if now - told_at >= HEARTBEAT_S:
                self._probe_silent_brokers(now)
                self._send_heartbeats(run, stopped=False)
                told_at = now
            if not batches or now - saved_at >= _SAVE_INTERVAL_S:
                # What Kafka did not take yet, it may take in the next round: a broker may be away for a restart.
                settled = self._commit(run, _ROUND_FLUSH_TIMEOUT_S) == 0
                saved_at = now
                self._idle_rounds = self._idle_rounds + 1 if settled and not batches else 0
            if batches:
                self._idle_rounds = 0
            else:
                run.stop.wait(_POLL_S)

    def _end(self, run: TapRun) -> None:
        # Nobody may come back to them.
        self._send(run, run.owners.expire(math.inf))
        left = self._commit(run, _FLUSH_TIMEOUT_S)
        if left:
            raise run.output.undelivered(left)
        self._send_heartbeats(run, stopped=True)
        run.output.flush(_FLUSH_TIMEOUT_S)

    def _send_heartbeats(self, run: TapRun, *, stopped: bool) -> None:
        self._heartbeats.send(run.output, self._source, self._brokers.values(), asdict(self.counters), stopped=stopped)

    def _take(self, batch: LineBatch, run: TapRun) -> None:
        attribution = self._broker(batch.stream, batch.broker_id, run.owners)
        attribution.repeated = batch.repeated
        if batch.after_loss:
            attribution.learning.restart()
        feed, send, stopped, now = attribution.feed, run.output.send, run.stop.is_set, self._clock()
        for line in batch.lines:
            try:
                records = feed(line, now)
            except TapError:
                raise
            except Exception:
                # Whatever a client made a broker write: it must not end the watch over all others.
                attribution.damaged(line)
                continue
            for record in records:
                if record.__class__ is ProduceEvent and record.principal == UNKNOWN_PRINCIPAL:
                    self._heartbeats.count_unplaced(record.broker_id)
                send(record, stopped)
        attribution.heard(batch.lines[-1])
        self._heard_s[batch.stream] = now

    def _probe_silent_brokers(self, now_s: float) -> None:
        """Ask brokers of which nothing was heard for a while whether their log is on."""
        if self._logging_is_on is None or not self._learn_ms or self._source.lag:
            return
        for stream, attribution in self._brokers.items():
            heard_s = self._heard_s.setdefault(stream, now_s)
            if attribution.broker_id is None or now_s - heard_s < SILENT_S:
                continue
            attribution.logging = self._logging_is_on(attribution.broker_id)
            if attribution.logging:
                attribution.learning.extend(round((now_s - heard_s) * 1000))
                self._heard_s[stream] = now_s
            elif attribution.logging is False:
                attribution.learning.restart()

    def _send(self, run: TapRun, records: Iterable[Record]) -> None:
        for record in records:
            if isinstance(record, ProduceEvent) and record.principal == UNKNOWN_PRINCIPAL:
                self._heartbeats.count_unplaced(record.broker_id)
            # At the end what is left has to go out too: only `_commit` gives up then.
            run.output.send(record, run.stop.is_set)

    def _broker(self, stream: str, broker_id: int | None, owners: Owners) -> Attribution:
        known = self._brokers.get(stream)
        if known is None:
            # Also under a name of the user's choice our own traffic must not make events.
            own = frozenset({self._topic})
            known = Attribution(
                broker_id, owners, own_topics=own, every_batch=self._every_batch, learn_ms=self._learn_ms
            )
            self._brokers[stream] = known
        return known

    # The position

    def _mark_send_limit(self) -> None:
        """Note before sending how far it will go: what a run after a crash finds before that may be sent twice."""
        if self._position_file is not None and self._committed is not None:
            self._committed = replace(self._committed, sent_up_to=self._source.position)
            save_checkpoint(self._position_file, self._committed)

    def _commit(self, run: TapRun, timeout_s: float) -> int:
        """Deliver everything that was read, then save the position behind it; returns how many records are left."""
        left = run.output.flush(timeout_s)
        position = self._source.position
        if left or self._position_file is None or position is None:
            return left
        kept = {stream: lines for stream, each in self._brokers.items() if (lines := each.kept_lines())}
        order = {stream: known for stream, each in self._brokers.items() if (known := each.kept_order())}
        learning = {stream: copy(each.learning) for stream, each in self._brokers.items()}
        checkpoint = Checkpoint(position, None, kept, run.owners.waiting(), learning, order)
        if checkpoint != self._committed:
            save_checkpoint(self._position_file, checkpoint)
            self._committed = checkpoint
        return 0
