"""The ledger of one principal: it takes produce events in offset order and applies the rules of KIP-936.

Everything is decided per tick: within a tick a PID that was admitted is known, a PID that was refused stays refused,
and no token comes back. So a repeat of a PID within a tick changes nothing, and callers may leave repeats out.
"""

from collections.abc import Callable
from dataclasses import replace

from quota.bucket import BucketTerms, TokenBucket
from quota.decision import Action, Decision, Evidence, decision_id
from quota.episode import Episode
from quota.limits import UNLIMITED, Limit
from state.codec import LedgerState, decode, encode
from state.events import Deployment, Events, MetricsRow, Outcome
from state.layers import LayeredBloomFilter
from state.window import WindowCounts, new_pids_in_window, throttle_time_avg_ms


class Ledger:
    """What is remembered of one principal. Not thread-safe.

    Examples:
        >>> from quota.limits import UNLIMITED, Limit
        >>> ledger = Ledger("User:mallory", Deployment())
        >>> flood = Events(list(range(150)), [0] * 150, [""] * 150, [False] * 150)
        >>> outcome = ledger.process(flood, Limit(100.0, "user"))
        >>> outcome.metrics[-1].admitted_pids, outcome.metrics[-1].refused_pids, outcome.decisions[0].action
        (101, 49, 'THROTTLE')
    """

    def __init__(
        self, principal: str, deployment: Deployment, content: bytes | None = None, broker_id: int | None = None
    ) -> None:
        """Open a ledger.

        Args:
            principal: KafkaPrincipal the ledger belongs to.
            deployment: What all ledgers share.
            content: The bytes of `to_bytes`, or None for a principal never seen before.
            broker_id: Broker that the budget is for, None if it is for the cluster.

        Raises:
            LedgerCodecError: If the bytes are not a ledger that this version can read.
        """
        self._principal = principal
        self._broker_id = broker_id
        self._deployment = deployment
        self._config = deployment.config
        self._timeline = deployment.timeline
        self._interval_ticks = self._timeline.ticks_in(self._config.metrics_interval_seconds * 1000)
        self._state = decode(content) if content else LedgerState()
        quantum = self._timeline.quantum(max(0, self._state.clock_tick))
        self._seen = LayeredBloomFilter(self._config, quantum, self._state.quanta)
        self._bucket = TokenBucket.from_parts(self._state.bucket) if self._state.bucket else None
        self._window = WindowCounts(self._state.counts, self._config.layer_count)
        self.begin(UNLIMITED)

    def to_bytes(self) -> bytes:
        """Return the ledger as it is stored."""
        self._state.counts = self._window.close()
        self._state.quanta = self._seen.state()
        self._state.bucket = self._bucket.to_parts() if self._bucket else None
        return encode(self._state)

    def learn_again(self, until_ms: int) -> None:
        """Store unseen PIDs without charge until an event time: what was known of them has been lost."""
        self._state.learn_until_ms = max(self._state.learn_until_ms, until_ms)

    def process(self, events: Events, limit: Limit) -> Outcome:
        """Apply events in offset order under the quota in force.

        Args:
            events: The events; repeats of a PID within a tick may be left out.
            limit: The quota in force for the whole batch.
        """
        self.begin(limit)
        self.feed(events)
        return self.end()

    def feed(self, events: Events, knows_elsewhere: Callable[[int, int], bool] | None = None) -> None:
        """Apply part of a batch, between `begin` and `end`.

        Args:
            events: As in `process`.
            knows_elsewhere: Asked with a PID and its time in milliseconds; one that is known elsewhere is not charged.
        """
        salt, holds_in_current = self._deployment.salt, self._seen.holds_in_current
        tick = begin_ms = end_ms = -1
        columns = zip(events.pids, events.timestamps_ms, events.client_ids, events.corrections, strict=True)
        for pid, timestamp_ms, client_id, correction in columns:
            if not begin_ms <= timestamp_ms < end_ms:
                tick = self._timeline.tick(timestamp_ms)
                begin_ms, end_ms = self._timeline.tick_start_ms(tick), self._timeline.tick_start_ms(tick + 1)
            if tick > self._batch_tick:
                self._advance(tick)
            if tick < self._late_before:
                self._observe_late(pid ^ salt, tick)
            elif not holds_in_current(pid ^ salt):
                free = correction or (knows_elsewhere is not None and knows_elsewhere(pid, timestamp_ms))
                self._observe(pid, timestamp_ms, max(tick, self._state.clock_tick), client_id, free)

    def knows(self, pid: int, timestamp_ms: int) -> bool:
        """Say whether a PID is remembered at a time, which may be later than this ledger's own."""
        newest = self._seen.find(pid ^ self._deployment.salt)
        quantum = self._timeline.quantum(self._timeline.tick(timestamp_ms))
        return newest is not None and newest.number >= quantum - self._config.layer_count

    def begin(self, limit: Limit) -> None:
        """Begin a batch under the quota in force."""
        self._limit = limit
        rate = limit.producer_ids_rate
        self._terms = None if rate is None else BucketTerms.of(rate, self._config)
        self._decisions: list[Decision] = []
        self._metrics: list[MetricsRow] = []
        self._late_pids = 0
        self._changed = self._state.learn_until_ms > 0 and self._state.clock_tick < 0
        self._row_due = False
        self._batch_tick = self._state.clock_tick
        self._keep_late_bound()

    def _advance(self, tick: int) -> None:
        """Let the time of an event come: close what ended before it."""
        self._batch_tick = tick
        if self._timeline.quantum(tick) > self._timeline.quantum(self._state.clock_tick):
            self._move_clock(tick)
        interval = tick // self._interval_ticks
        if interval > self._state.interval:
            if self._row_due:
                self._report()
            self._state.interval = interval
            self._state.interval_admitted, self._state.interval_refused = 0, 0.0
            self._changed = self._row_due = True
        episode = self._state.episode
        if episode and episode.is_over(tick, self._timeline):
            self._decide("RELEASE", episode, tick)
            self._state.episode = None

    def _observe(self, pid: int, timestamp_ms: int, tick: int, client_id: str, free: bool) -> None:
        """Apply an event whose PID is not in the current quantum."""
        salted = pid ^ self._deployment.salt
        source, quantum = self._seen.find(salted), self._timeline.quantum(tick)
        self._move_clock(tick)
        if source is not None:
            self._changed |= self._seen.renew(salted, source, quantum)
        elif free:
            self._store(salted, quantum)
        elif self._is_learning(tick):
            self._store_uncharged(salted, tick)
        elif self._terms is None:
            if self._store_uncharged(salted, tick):
                self._count_admitted(timestamp_ms, tick)
        elif self._take_token(self._terms, tick):
            self._store(salted, quantum)
            self._count_admitted(timestamp_ms, tick)
        else:
            self._refuse(pid, self._effective_ms(timestamp_ms, tick), tick, client_id)

    def _observe_late(self, salted: int, tick: int) -> None:
        """Apply an event older than the clock by more than the grace: remember its PID, charge nothing."""
        self._late_pids += 1
        self._row_due = True
        quantum = self._timeline.quantum(tick)
        newest = self._seen.find(salted)
        if not self._seen.is_live(quantum):
            return
        if newest is None:
            self._store(salted, quantum)
        elif newest.number < quantum:
            self._changed |= self._seen.renew(salted, newest, quantum)

    def _store(self, salted: int, quantum: int) -> None:
        self._seen.store(salted, quantum)
        self._changed = True

    def _take_token(self, terms: BucketTerms, tick: int) -> bool:
        if self._bucket is None:
            self._bucket = TokenBucket.full(terms, tick)
        self._bucket.refill(terms, tick, self._timeline)
        return self._bucket.take(terms)

    def _count_admitted(self, timestamp_ms: int, tick: int) -> None:
        self._state.rate.record(1, self._config, self._effective_ms(timestamp_ms, tick))
        self._window.of(self._timeline.quantum(tick)).admitted += 1
        self._state.interval_admitted += 1
        self._row_due = True

    def _store_uncharged(self, salted: int, tick: int) -> bool:
        """Store a PID that no quota holds back, unless the filter has grown to its cap."""
        enough = max(self._limit.producer_ids_rate or 0, 1)
        if self._seen.size_bytes() < self._config.max_uncharged_bytes or self._seen.active_pids() < enough:
            self._store(salted, self._timeline.quantum(tick))
            return True
        counts = self._window.of(self._timeline.quantum(tick))
        if self._window.add_unstored(counts, salted):
            counts.saturated = self._changed = self._row_due = True
        return False

    def _refuse(self, pid: int, now_ms: int, tick: int, client_id: str) -> None:
        throttle_time_ms = self._throttle_time_ms(tick)
        counts = self._window.of(self._timeline.quantum(tick))
        self._changed |= counts.count_throttle(tick, throttle_time_ms)
        weight = self._window.add_unstored(counts, pid)
        if weight:
            self._state.interval_refused += weight
            self._changed = self._row_due = True
        episode = self._state.episode
        if episode is None:
            episode = self._state.episode = Episode.begin(now_ms, tick, throttle_time_ms, self._config)
            # A PID refused before this episode began is nothing new to the sketch, but it is why we throttle.
            episode.add_refused(pid, client_id, weight or 1.0)
            self._decide("THROTTLE", episode, tick)
            return
        if weight:
            episode.add_refused(pid, client_id, weight)
        if episode.renewal_is_due(tick, self._config, self._timeline):
            episode.renew(now_ms, tick, throttle_time_ms, self._config)
            self._decide("THROTTLE", episode, tick)

    def _decide(self, action: Action, episode: Episode, tick: int) -> None:
        self._settle_evidence(episode)
        self._changed = self._row_due = True
        release = action == "RELEASE"
        decided_at_ms = episode.throttled_until_ms if release else episode.decided_at_ms
        self._decisions.append(
            Decision(
                decision_id=decision_id(self._principal, self._broker_id, episode.start_ms, episode.renewal, action),
                principal=self._principal,
                broker_id=self._broker_id,
                action=action,
                decided_at_ms=decided_at_ms,
                throttle_time_ms=0 if release else episode.throttle_time_ms,
                throttled_until_ms=episode.throttled_until_ms,
                tokens=self._tokens(tick),
                rate=self._state.rate.measure(self._config, decided_at_ms),
                quota=self._limit.producer_ids_rate,
                quota_source=self._limit.source,
                quota_updated_at_ms=self._limit.updated_at_ms,
                evidence=episode.evidence() if release else Evidence(),
            )
        )

    def _settle_evidence(self, episode: Episode | None) -> None:
        """Give the last THROTTLE all that was refused until the next decision or the end of its batch."""
        if episode and self._decisions and self._decisions[-1].action == "THROTTLE":
            self._decisions[-1] = replace(self._decisions[-1], evidence=episode.evidence())

    def end(self) -> Outcome:
        """End a batch and return what it did."""
        self._settle_evidence(self._state.episode)
        if self._row_due:
            self._report()
        return Outcome(tuple(self._decisions), tuple(self._metrics), self._changed)

    def _report(self) -> None:
        """Add a metrics row of the current interval."""
        self._row_due = False
        tick, state = max(self._batch_tick, self._state.clock_tick), self._state
        as_of_ms = self._timeline.tick_start_ms(tick)
        tokens, counts = self._tokens(tick), self._window.live(self._timeline.quantum(tick))
        self._metrics.append(
            MetricsRow(
                principal=self._principal,
                broker_id=self._broker_id,
                window_end_ms=self._timeline.tick_start_ms((state.interval + 1) * self._interval_ticks),
                as_of_ms=as_of_ms,
                rate=state.rate.measure(self._config, as_of_ms),
                tokens=tokens,
                throttle_time_ms=self._throttle_time_ms(tick),
                throttle_time_avg_ms=throttle_time_avg_ms(counts),
                new_pids_window=new_pids_in_window(counts, as_of_ms, self._config.window_ms, self._timeline),
                quota=self._limit.producer_ids_rate,
                quota_source=self._limit.source,
                admitted_pids=state.interval_admitted,
                refused_pids=round(state.interval_refused),
                late_pids=self._late_pids,
                active_pids=self._seen.active_pids(),
                layers=self._seen.layers(),
                state_bytes=len(self.to_bytes()),
                phase="learning" if self._is_learning(tick) else "enforcing",
                saturated=any(each.saturated for each in counts),
            )
        )
        self._late_pids = 0

    def _bucket_at(self, terms: BucketTerms, tick: int) -> TokenBucket:
        """Return the bucket as it is at a tick; one that no event has asked for yet is full."""
        bucket = self._bucket
        return (
            TokenBucket(bucket.units_at(terms, tick, self._timeline), tick) if bucket else TokenBucket.full(terms, tick)
        )

    def _tokens(self, tick: int) -> float | None:
        return self._bucket_at(self._terms, tick).tokens(self._terms) if self._terms else None

    def _throttle_time_ms(self, tick: int) -> int:
        return self._bucket_at(self._terms, tick).throttle_time_ms(self._terms) if self._terms else 0

    def _is_learning(self, tick: int) -> bool:
        until_ms = max(self._deployment.learn_until_ms, self._state.learn_until_ms)
        return self._timeline.tick_start_ms(tick) < until_ms

    def _effective_ms(self, timestamp_ms: int, tick: int) -> int:
        return max(timestamp_ms, self._timeline.tick_start_ms(tick))

    def _move_clock(self, tick: int) -> None:
        if tick <= self._state.clock_tick:
            return
        before, self._state.clock_tick = self._timeline.quantum(self._state.clock_tick), tick
        self._changed = True
        self._keep_late_bound()
        quantum = self._timeline.quantum(tick)
        if quantum > before:
            self._seen.advance(quantum)
            self._window.advance(quantum)

    def _keep_late_bound(self) -> None:
        clock_ms = self._timeline.tick_start_ms(max(0, self._state.clock_tick))
        grace_ms = round(self._config.late_grace_seconds * 1000)
        self._late_before = self._timeline.tick(max(0, clock_ms - grace_ms))
