"""The ledger of one principal: it takes produce events in offset order and applies the rules of KIP-936.

Everything is decided per tick: within a tick a PID that was admitted is known, a PID that was refused stays refused,
and no token comes back. So a repeat of a PID within a tick changes nothing, and callers may leave repeats out.

Nothing here notes that the ledger has changed. A batch ends with the bytes to store; whether they differ from those
before, and whether a metrics row is due, follows from comparing them.
"""

from collections.abc import Callable

from quota.config import TICKS_PER_QUANTUM
from quota.limits import UNLIMITED, Limit
from quota.rate import SampledRate
from state.budget import Budget
from state.codec import LedgerState, decode, encode
from state.events import CHARGED, CORRECTION, LEARNING, Deployment, Events, Outcome, Unsettled
from state.hashing import hash_pids
from state.journal import Journal
from state.layers import LayeredBloomFilter
from state.refusals import NO_TICK, Refusals
from state.uncharged import Uncharged
from state.window import IntervalCounts, WindowCounts


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
        self._state = decode(content) if content else LedgerState()
        quantum = self._timeline.quantum(max(0, self._state.clock_tick))
        self._seen = LayeredBloomFilter(self._config, quantum, self._state.quanta)
        self._budget = Budget(self._config, self._timeline, self._state.bucket)
        self._window = WindowCounts(self._state.counts, self._config)
        self._refusals = Refusals(self._config, self._timeline, self._state, self._window)
        self._uncharged = Uncharged(self._config, self._seen, self._window, self._refusals)
        self._limit = Limit(*self._state.limit) if self._state.limit else UNLIMITED
        self._budget.apply(self._limit)
        self._uncharged.put_in_force(self._limit)
        self._told = content
        self._batch_tick = self._state.clock_tick

    def to_bytes(self) -> bytes:
        """Return the ledger as it is stored."""
        self._state.quanta = self._seen.state()
        self._state.bucket = self._budget.parts()
        limit, rate = self._limit, self._limit.producer_ids_rate
        # As it is read back: the same ledger has the same bytes.
        self._state.limit = (None if rate is None else float(rate), limit.source, limit.updated_at_ms)
        return encode(self._state)

    def learn_again(self, until_ms: int) -> None:
        """Store unseen PIDs without charge until an event time: what was known of them has been lost."""
        self._state.learn_until_ms = max(self._state.learn_until_ms, until_ms)

    def expires_ms(self) -> int:
        """Return the event time from which on nothing of this ledger bears on what comes, in ms since the epoch.

        By then no PID is remembered, the bucket is full, the samples of the rate have expired, and no throttle holds
        (KIP-936: a user that is idle for so long is removed).
        """
        state, config = self._state, self._config
        quantum = self._timeline.quantum(max(0, state.clock_tick))
        ends_ms = (
            (quantum + config.layer_count + 1) * config.quantum_ms,
            self._budget.full_ms(),
            state.rate.expires_ms(config),
            state.episode.throttled_until_ms if state.episode else 0,
            state.learn_until_ms,
        )
        # All rules go by whole ticks.
        return self._timeline.tick_start_ms(self._timeline.tick(max(ends_ms)) + 1)

    def expire(self) -> Outcome:
        """Say the last of a principal, as of `expires_ms`: a pending RELEASE, and a metrics row with a rate of 0."""
        self.begin(self._limit, self.expires_ms())
        return self.end()

    def process(self, events: Events, limit: Limit) -> Outcome:
        """Apply events in offset order under the quota in force.

        Args:
            events: The events; repeats of a PID within a tick may be left out.
            limit: The quota in force for the whole batch.
        """
        self.begin(limit, events.timestamps_ms[0] if events.pids else 0)
        self.feed(events)
        return self.end()

    def feed(self, events: Events, knows_elsewhere: Callable[[int, int], bool] | None = None) -> None:
        """Apply part of a batch, between `begin` and `end`.

        Args:
            events: As in `process`.
            knows_elsewhere: Says of a PID's hash and a time in milliseconds whether it is known elsewhere: then it is
                not charged.
        """
        seen, refusals = self._seen, self._refusals
        tick = begin_ms = end_ms = -1
        hashes = hash_pids(events.pids, self._deployment.salt)
        columns = zip(events.pids, hashes, events.timestamps_ms, events.client_ids, events.kinds, strict=True)
        for pid, pid_hash, timestamp_ms, client_id, kind in columns:
            if not begin_ms <= timestamp_ms < end_ms:
                tick = self._timeline.tick(timestamp_ms)
                begin_ms, end_ms = self._timeline.tick_start_ms(tick), self._timeline.tick_start_ms(tick + 1)
            if tick > self._batch_tick:
                self._advance(tick)
            if tick < self._late_before:
                self._observe_late(pid_hash, tick)
            elif seen.holds_in_current(pid_hash):
                # Nothing new.
                continue
            elif tick <= refusals.tick and kind == CHARGED and not (knows_elsewhere or seen.holds_before(pid_hash)):
                refusals.add_again(pid, pid_hash, client_id)
            else:
                now_tick = max(tick, self._state.clock_tick)
                now_ms = max(timestamp_ms, self._timeline.tick_start_ms(now_tick))
                is_free = knows_elsewhere is not None and knows_elsewhere(pid_hash, now_ms)
                event = Unsettled(pid, pid_hash, now_ms, client_id, CORRECTION if is_free else kind)
                self._observe(event, now_tick)
                # Behind later events of known PIDs it may have begun a throttle that their time has ended.
                self._batch_tick = self._state.clock_tick

    def knows(self, pid_hash: int, timestamp_ms: int) -> bool:
        """Say whether a PID is remembered at a time, which may be later than this ledger's own."""
        newest = self._seen.find(pid_hash)
        quantum = self._timeline.quantum(self._timeline.tick(timestamp_ms))
        return newest is not None and newest.number >= quantum - self._config.layer_count

    def begin(self, limit: Limit, first_ms: int) -> None:
        """Begin a batch under the quota in force.

        Args:
            limit: The quota.
            first_ms: Time of the first event, in milliseconds since the epoch.
        """
        self._journal = Journal(self._principal, self._broker_id, self._deployment, self._limit)
        self._refusals.begin(self._journal)
        self._batch_tick = self._state.clock_tick
        self._keep_late_bound()
        # What ended before ended under the quota of its time, whether somebody came to remove the ledger or not.
        first_tick = self._timeline.tick(first_ms)
        if first_tick > self._batch_tick:
            self._advance(first_tick)
        self._put_in_force(limit, max(first_tick, self._state.clock_tick), first_ms)

    def is_throttled_by_another(self, limit: Limit, at_ms: int) -> bool:
        """Say whether a throttle that holds at a time, in ms since the epoch, began under a quota of another rate."""
        episode = self._state.episode
        holds = episode is not None and at_ms < episode.throttled_until_ms
        return holds and limit.producer_ids_rate != self._limit.producer_ids_rate

    def _put_in_force(self, limit: Limit, tick: int, first_ms: int) -> None:
        if limit == self._limit:
            return
        has_news = self.to_bytes() != self._told
        before, self._limit = self._limit, limit
        self._journal.limit = limit
        if limit.producer_ids_rate != before.producer_ids_rate:
            self._budget.apply(limit, tick)
            self._uncharged.put_in_force(limit)
            if before.producer_ids_rate is None:
                # To excuse what a flood without a quota left out would shelter it from the quota set against it.
                self._window.excuse_nobody()
            if before.allows_less_than(limit):
                self._refusals.end_sooner(max(first_ms, self._timeline.tick_start_ms(tick)), tick, self._budget)
        if not (has_news or self._journal.decisions):
            # The change alone makes no row.
            self._told = self.to_bytes()

    def _advance(self, tick: int) -> None:
        """Let the time of an event come: close what ended before it."""
        clock_tick = self._state.clock_tick
        # The first look is cheap: most events come soon after one another.
        is_idle = clock_tick >= 0 and tick - clock_tick > self._config.layer_count * TICKS_PER_QUANTUM
        if is_idle and self._timeline.tick_start_ms(tick) >= self.expires_ms():
            self._expire()
        self._pass(tick)

    def _expire(self) -> None:
        """Begin afresh, as if never seen; what removes idle ledgers in between can then not change what comes out."""
        tick = self._timeline.tick(self.expires_ms())
        self._pass(tick)
        self._budget = Budget(self._config, self._timeline, None)
        self._budget.apply(self._limit)
        self._state.rate, self._state.learn_until_ms = SampledRate(), 0
        self._report(tick, self.to_bytes())
        self._state.interval = IntervalCounts(self._state.interval.number)
        self._told = self.to_bytes()

    def _pass(self, tick: int) -> None:
        self._batch_tick = tick
        interval = tick // self._deployment.interval_ticks
        if interval > self._state.interval.number:
            # Before a new quantum drops layers: the row is of what the interval left.
            if self._state.interval.number >= 0:
                self._report_news()
            self._state.interval = IntervalCounts(interval)
        if self._timeline.quantum(tick) > self._timeline.quantum(self._state.clock_tick):
            self._move_clock(tick)
        self._refusals.end_if_over(tick, self._budget)

    def _observe(self, event: Unsettled, tick: int) -> None:
        """Apply an event whose PID is not in the current quantum."""
        pid_hash = event.pid_hash
        source, quantum = self._seen.find(pid_hash), self._timeline.quantum(tick)
        self._move_clock(tick)
        if source is not None:
            self._uncharged.renew(pid_hash, source, quantum, quantum)
        elif event.kind in (CORRECTION, LEARNING) or self._is_learning(tick):
            self._uncharged.store(pid_hash, quantum, quantum)
        elif not self._budget.is_limited:
            if self._uncharged.store(pid_hash, quantum, quantum):
                self._count_admitted(event, quantum)
        elif self._window.is_saturated():
            # It may be one of those that were left out: reported, not enforced. Nor stored, or a flood would keep out
            # those that are known, and so never be judged.
            self._window.of(quantum).unstored.add(pid_hash)
        elif self._budget.take(tick):
            self._seen.store(pid_hash, quantum)
            self._count_admitted(event, quantum)
        else:
            self._refusals.add(event, tick, self._budget)

    def _observe_late(self, pid_hash: int, tick: int) -> None:
        """Apply an event older than the clock by more than the grace: remember its PID, charge nothing."""
        self._journal.late_pids += 1
        quantum = self._timeline.quantum(tick)
        if not self._seen.is_live(quantum):
            return
        newest, current = self._seen.find(pid_hash), self._timeline.quantum(self._state.clock_tick)
        if newest is None:
            self._uncharged.store(pid_hash, quantum, current)
        elif newest.number < quantum:
            self._uncharged.renew(pid_hash, newest, quantum, current)

    def _count_admitted(self, event: Unsettled, quantum: int) -> None:
        self._state.rate.record(1, self._config, event.now_ms)
        self._window.of(quantum).admitted += 1
        self._state.interval.admitted += 1

    def end(self) -> Outcome:
        """End a batch and return what it did."""
        journal = self._journal
        journal.settle(self._state.episode)
        content = self._report_news()
        return Outcome(tuple(journal.decisions), tuple(journal.metrics), content)

    def _report_news(self) -> bytes:
        """Return the ledger as bytes, after a metrics row if that differs from what the last row told."""
        content = self.to_bytes()
        if content != self._told or self._journal.late_pids:
            self._report(self._row_tick(), content)
        return content

    def _row_tick(self) -> int:
        """Return when the ledger last changed in the current interval: wherever a batch ends, the row is the same."""
        return max(self._state.clock_tick, self._state.interval.number * self._deployment.interval_ticks)

    def _report(self, tick: int, content: bytes) -> None:
        self._told = content
        self._journal.report(
            tick,
            self._state,
            self._budget,
            self._seen,
            self._window.live(self._timeline.quantum(tick)),
            state_bytes=len(content),
            is_learning=self._is_learning(tick),
        )

    def _is_learning(self, tick: int) -> bool:
        until_ms = max(self._deployment.learn_until_ms, self._state.learn_until_ms)
        return self._timeline.tick_start_ms(tick) < until_ms

    def _move_clock(self, tick: int) -> None:
        if tick <= self._state.clock_tick:
            return
        before, self._state.clock_tick = self._timeline.quantum(self._state.clock_tick), tick
        self._refusals.tick = NO_TICK
        self._keep_late_bound()
        quantum = self._timeline.quantum(tick)
        if quantum > before:
            self._seen.advance(quantum)
            self._window.advance(quantum)

    def _keep_late_bound(self) -> None:
        clock_ms = self._timeline.tick_start_ms(max(0, self._state.clock_tick))
        self._late_before = self._timeline.tick(max(0, clock_ms - self._deployment.late_grace_ms))
