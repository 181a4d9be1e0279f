"""The tap: reads brokers' logs and writes who produced with which producer id to the topic `produce-events`.

One tap per broker, on the broker's machine, or one for many brokers that ship their logs to a topic. Delivery is at
least once: the position is committed only after Kafka has acknowledged all events before it. After a crash the tap
rereads what came since the last commit (a second at most) and marks those events `repeated`; they change nothing
downstream, since a producer id counts once. Pending requests and waiting batches are saved with the position, bindings
in their topic.
"""

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
from broker.cluster.topics import await_topic
from broker.errors import TapError
from broker.log.sources import LineBatch, Source
from broker.tap.asking import NO_QUESTIONS, Asking, Questions
from broker.tap.binding_topic import BindingTopic
from broker.tap.heartbeats import Heartbeats
from broker.tap.learning_requests import LearningRequests
from broker.tap.log_levels_watch import SILENT_S
from broker.tap.position_file import Checkpoint, load_checkpoint, save_checkpoint
from broker.tap.tap_counters import TapCounters
from broker.tap.tap_output import TapOutput
from broker.tap.tap_run import TapRun
from quota.principals import UNKNOWN_PRINCIPAL
from wire.event_record import EVENTS_VERSION
from wire.heartbeat import TapHeartbeat
from wire.records import ProduceEvent, Record
from wire.topics import PRODUCE_EVENTS, PRODUCER_PRINCIPALS, TAP_STATUS

HEARTBEAT_S = 10.0
"""Interval of heartbeats."""

_POLL_S = 0.1
_SAVE_INTERVAL_S = 1.0
_ROUND_FLUSH_TIMEOUT_S = 1.0
_FLUSH_TIMEOUT_S = 15.0


class SourceTap:
    """Follows one source until it is stopped.

    Args:
        source: of log lines.
        kafka_config: confluent-kafka settings of a user who may write our topics and read `producer-principals`.
        topic: for the events.
        position_file: keeps the position across runs; by default it is not kept.
        every_batch: keep repeats within a tick of the streams, which change nothing downstream.
        wait_s: how long a batch waits for its binding.
        learn_seconds: how long ids of a newly watched broker are marked `learning`; 0 disables it.
        events_version: of their records; 1 for streams of an earlier version.
        wall_clock: seconds since the epoch, for heartbeats.
        on_heartbeat: called with each heartbeat, in the tap's thread.
        questions: what it may ask the brokers.
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
        events_version: int = EVENTS_VERSION,
        wall_clock: Callable[[], float] = time.time,
        on_heartbeat: Callable[[TapHeartbeat], None] | None = None,
        questions: Questions = NO_QUESTIONS,
    ) -> None:
        self._logging_is_on, self._is_calm = questions.logging_is_on, questions.is_calm
        self._heard_s: dict[str, float] = {}
        self._source = source
        self._kafka_config = dict(kafka_config)
        self._topic = topic
        self._events_version = events_version
        self._position_file = position_file
        self._every_batch = every_batch
        self._wait_s = wait_s
        self._clock = time.monotonic
        self._learn_ms = round(learn_seconds * 1000)
        answer_file = position_file and position_file.with_name(position_file.name + ".known-ids")
        self._asking = Asking.of(questions, self._learn_ms, answer_file, wall_clock)
        self._requests = LearningRequests(kafka_config, topic, questions.say, wall_clock)
        self._heartbeats = Heartbeats(source.kind, wall_clock, on_heartbeat)
        self._brokers: dict[str, Attribution] = {}
        self._owners: Owners | None = None
        self._committed: Checkpoint | None = None
        self._idle_rounds = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._source!r}, topic={self._topic!r})"

    @property
    def counters(self) -> TapCounters:
        """Snapshot of the counters, summed over all brokers."""
        of_lines = [each.counters for each in list(self._brokers.values())]
        sums = {
            field.name: sum(getattr(each, field.name) for each in of_lines) for field in fields(AttributionCounters)
        }
        of_owners = asdict(self._owners.counters) if self._owners else {}
        return TapCounters(**sums, **of_owners, **asdict(self._source.counters))

    @property
    def idle_rounds(self) -> int:
        """Consecutive rounds without new lines and with all events delivered."""
        return self._idle_rounds

    def run(self, stop: threading.Event) -> None:
        """Follow the source until `stop` is set; then deliver what was read and commit the position.

        Raises:
            BrokerUnreachableError: no broker answers at the start.
            TopicMissingError: one of our topics does not exist.
            TapError: the source or the position file can't be read, or the log is no longer switched as needed.
            TapDeliveryError: Kafka refused an event; the next run resends it from the committed position.
        """
        for topic in (self._topic, PRODUCER_PRINCIPALS, TAP_STATUS):
            await_topic(self._kafka_config, topic)
        folder = self._position_file.parent if self._position_file else None
        with Bindings(folder) as bindings:
            self._owners = owners = Owners(bindings, wait_s=self._wait_s)
            topic_of_bindings = BindingTopic(self._kafka_config, owners)
            output = TapOutput(self._kafka_config, self._topic, self._events_version)
            try:
                running = TapRun(owners, topic_of_bindings, output, stop)
                self._hear_streams(running)
                self._restore(running)
                self._follow(running)
                self._end(running)
            finally:
                if self._asking is not None:
                    self._asking.close()
                self._requests.close()
                self._source.close()
                topic_of_bindings.close()
                output.close()

    def _restore(self, run: TapRun) -> None:
        # Load bindings first: lines read later need them.
        run.bindings.load()
        saved = load_checkpoint(self._position_file) if self._position_file else None
        self._committed = saved
        if self._asking is not None and saved is not None:
            self._asking.load()
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
            requested_ms = self._hear_streams(run)
            if self._heed_calm():
                told_at = -math.inf
            if self._asking is not None:
                self._asking.step(self._brokers, self._clock(), run.stop, requested_ms)
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
            run.output.send_events(run.stop.is_set)
            run.output.check()
            if now - told_at >= HEARTBEAT_S:
                self._probe_silent_brokers(now)
                self._send_heartbeats(run, stopped=False)
                told_at = now
            if not batches or now - saved_at >= _SAVE_INTERVAL_S:
                # What is not acknowledged yet may be in the next round: a broker may be restarting.
                settled = self._commit(run, _ROUND_FLUSH_TIMEOUT_S) == 0
                saved_at = now
                self._idle_rounds = self._idle_rounds + 1 if settled and not batches else 0
            if batches:
                self._idle_rounds = 0
            else:
                run.stop.wait(_POLL_S)

    def _heed_calm(self) -> bool:
        """While the log is off on purpose, end the watch: the next line begins one. Return whether that has changed."""
        calm, has_changed = self._is_calm(), False
        for attribution in self._brokers.values():
            if calm:
                attribution.learning.restart()
            if calm != attribution.calm:
                attribution.calm, attribution.logging, has_changed = calm, None, True
        return has_changed

    def _hear_streams(self, run: TapRun) -> int:
        """Leave out repeats by the streams' ticks; return when the last began to learn that still does, or 0."""
        if self._asking is None and self._every_batch:
            return 0
        requested_ms = self._requests.newest_ms(self._clock())
        run.owners.repeats.use(self._requests.ticks)
        return requested_ms

    def _end(self, run: TapRun) -> None:
        # Do not leave waiting batches behind: there may be no next run.
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
                # A line crafted by one client must not stop the tap.
                attribution.damaged(line)
                continue
            for record in records:
                if record.__class__ is ProduceEvent and record.principal == UNKNOWN_PRINCIPAL:
                    self._heartbeats.count_unplaced(record.broker_id)
                send(record, stopped)
        attribution.heard(batch.lines[-1])
        self._heard_s[batch.stream] = now

    def _probe_silent_brokers(self, now_s: float) -> None:
        """Ask brokers that have been silent for a while whether their log is on."""
        if self._logging_is_on is None or not self._learn_ms or self._source.lag:
            return
        for stream, attribution in self._brokers.items():
            heard_s = self._heard_s.setdefault(stream, now_s)
            if attribution.broker_id is None or attribution.calm or now_s - heard_s < SILENT_S:
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
            # At shutdown keep sending what is left; `_commit` gives up.
            run.output.send(record, run.stop.is_set)

    def _broker(self, stream: str, broker_id: int | None, owners: Owners) -> Attribution:
        known = self._brokers.get(stream)
        if known is None:
            # Ignore our own traffic, whatever the topic's name.
            own = frozenset({self._topic})
            known = Attribution(
                broker_id, owners, own_topics=own, every_batch=self._every_batch, learn_ms=self._learn_ms
            )
            self._brokers[stream] = known
        return known

    # The position

    def _mark_send_limit(self) -> None:
        """Save how far this round will send: after a crash, events up to there may already have been sent."""
        if self._position_file is not None and self._committed is not None:
            self._committed = replace(self._committed, sent_up_to=self._source.position)
            save_checkpoint(self._position_file, self._committed)

    def _commit(self, run: TapRun, timeout_s: float) -> int:
        """Deliver everything read, then save the position; return how many records are undelivered."""
        run.output.send_events(run.stop.is_set)
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
