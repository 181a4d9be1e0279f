"""Applies a batch of one principal's events to the ledger.

Tokens refill only between ticks. So within a tick, a PID that took a token stays known, and a PID that was refused
without taking a token stays refused.
"""

from collections.abc import Iterator, Sequence
from itertools import chain

from quota.config import TICKS_PER_QUANTUM
from quota.decision import Client
from quota.limits import Limit
from state.coupons import NO_COUPON, coupons_of
from state.events import LEARNING, Events, Outcome, Unsettled
from state.hashing import hash_pids
from state.journal import Journal
from state.memory import Memory
from state.refusals import NO_TICK, Refusals
from state.uncharged import Uncharged
from state.window import IntervalCounts

FLOOD_PIDS = 500
"""Minimum number of events for which coupons (`state.coupons`) save time."""


class LedgerBatch:
    """A batch in progress. `Ledger.batch` opens it."""

    def __init__(self, memory: Memory, journal: Journal, limit: Limit, first_ms: int) -> None:
        """Advance the ledger to the first event's time `first_ms`, then put the quota in force."""
        self._memory, self._journal = memory, journal
        self._deployment, self._timeline = memory.deployment, memory.deployment.timeline
        self._state, self._seen, self._budget, self._window = memory.state, memory.seen, memory.budget, memory.window
        self._refusals = Refusals(memory, journal)
        self._uncharged = Uncharged(memory, self._refusals)
        self._tick = memory.state.clock_tick
        self._may_have_news = False
        # Until this batch, refills and releases follow the previous quota, as they do if the ledger is evicted first.
        first_tick = self._timeline.tick(first_ms)
        if first_tick > self._tick:
            self._advance(first_tick)
        self._may_have_news = True
        self._put_in_force(limit, max(first_tick, memory.state.clock_tick), first_ms)

    def feed(self, events: Events) -> None:
        """Apply some of the batch's events, in offset order."""
        state, timeline, refusals = self._state, self._timeline, self._refusals
        holds_in_current, find_before = self._seen.holds_in_current, self._seen.find_before
        tick = begin_ms = end_ms = -1
        is_late, free_below = False, 0
        hashes = events.hashes or hash_pids(events.pids, self._deployment.salt)
        coupons = chain.from_iterable(self._coupons(hashes))
        columns = zip(events.pids, hashes, events.timestamps_ms, events.clients, events.kinds, coupons, strict=True)
        counted = refusals.counted
        for pid, pid_hash, timestamp_ms, client, kind, coupon in columns:
            if not begin_ms <= timestamp_ms < end_ms:
                tick = timeline.tick(timestamp_ms)
                begin_ms, end_ms = timeline.tick_start_ms(tick), timeline.tick_start_ms(tick + 1)
                # These hold for all events of the tick, because none of them moves the clock beyond the tick.
                if tick > self._tick:
                    self._advance(tick)
                is_late = tick < state.clock_tick and self._deployment.is_late(tick, state.clock_tick)
                free_below = self._memory.free_below(max(tick, state.clock_tick))
            if is_late:
                self._observe_late(pid_hash, tick)
                continue
            is_free = kind == LEARNING or pid < free_below
            is_refused_tick = tick <= refusals.tick and not is_free
            if coupon in counted and is_refused_tick and not find_before(pid_hash):
                # Either the current quantum holds the PID, or the PID is refused again. Nothing changes.
                continue
            if holds_in_current(pid_hash):
                continue
            if is_refused_tick and not find_before(pid_hash):
                refusals.add_again(pid, pid_hash, client, coupon)
                continue
            self._settle(pid, pid_hash, timestamp_ms, tick, client, is_free=is_free)

    def _settle(self, pid: int, pid_hash: int, timestamp_ms: int, tick: int, client: Client, *, is_free: bool) -> None:
        """Decide about a PID that the current quantum does not hold."""
        is_behind = tick < self._state.clock_tick
        now_tick = self._state.clock_tick if is_behind else tick
        now_ms = self._timeline.tick_start_ms(now_tick) if is_behind else timestamp_ms
        self._observe(Unsettled(pid, pid_hash, now_ms, client, is_free), now_tick)
        # If a throttle began, events of known PIDs may have moved `_tick` beyond the throttle's end. So advance again
        # at the next tick.
        self._tick = self._state.clock_tick

    def _coupons(self, hashes: Sequence[int]) -> Iterator[list[int]]:
        """Yield the events' coupons in parts. Each part is computed after the earlier events were applied."""
        begin, size = 0, FLOOD_PIDS
        while begin < len(hashes):
            part = hashes[begin : begin + size]
            is_flood = self._refusals.have_begun and len(part) >= FLOOD_PIDS
            yield coupons_of(part) if is_flood else [NO_COUPON] * len(part)
            begin, size = begin + size, 2 * size

    def end(self) -> Outcome:
        """End the batch and return its result."""
        self._journal.settle()
        content = self._report_news()
        return Outcome(tuple(self._journal.decisions), tuple(self._journal.metrics), content)

    def _put_in_force(self, limit: Limit, tick: int, first_ms: int) -> None:
        memory, before = self._memory, self._memory.limit
        if limit == before:
            return
        has_news = memory.to_bytes() != memory.reported
        memory.put_in_force(limit)
        if not limit.counts_as(before):
            has_grown = self._budget.apply(limit, tick)
            if before.producer_ids_rate is None:
                # Otherwise, a flood that began without a quota would be exempt from the quota set against the flood.
                self._window.excuse_nobody()
            if has_grown or before.allows_less_than(limit):
                self._refusals.shorten(max(first_ms, self._timeline.tick_start_ms(tick)), tick)
        if not (has_news or self._journal.decisions):
            # A changed quota alone causes no metrics row.
            memory.reported = memory.to_bytes()

    def _advance(self, tick: int) -> None:
        """Advance to an event's tick. End the interval, quantum and throttle if they are over."""
        clock_tick = self._state.clock_tick
        # A cheap check comes first. Most gaps between events are short.
        is_idle = clock_tick >= 0 and tick - clock_tick > self._deployment.config.layer_count * TICKS_PER_QUANTUM
        if is_idle and self._timeline.tick_start_ms(tick) >= self._memory.expires_ms():
            self._expire()
        self._pass(tick)

    def _expire(self) -> None:
        """Reset an expired ledger, so that no output depends on when the stream evicts the ledger."""
        tick = self._timeline.tick(self._memory.expires_ms())
        self._pass(tick)
        self._memory.reset()
        self._report(tick, self._memory.to_bytes())
        self._state.interval = IntervalCounts(self._state.interval.number)
        self._memory.reported = self._memory.to_bytes()

    def _pass(self, tick: int) -> None:
        self._tick, state = tick, self._state
        interval = tick // self._deployment.interval_ticks
        if interval > state.interval.number:
            # Report before a new quantum drops layers, because the row describes the interval's end. When a
            # batch opens, nothing is new.
            if self._may_have_news and state.interval.number >= 0:
                self._report_news()
            state.interval = IntervalCounts(interval)
            self._refusals.count_anew()
        if tick // TICKS_PER_QUANTUM > state.clock_tick // TICKS_PER_QUANTUM:
            self._move_clock(tick)
        if state.episode:
            self._refusals.end_if_over(tick)

    def _observe(self, event: Unsettled, tick: int) -> None:
        pid_hash = event.pid_hash
        source, quantum = self._seen.find_before(pid_hash), tick // TICKS_PER_QUANTUM
        if tick > self._state.clock_tick:
            self._move_clock(tick)
        if source is not None:
            self._uncharged.renew(pid_hash, source, quantum, quantum)
        elif event.is_free:
            self._uncharged.store(pid_hash, quantum, quantum)
        elif not self._budget.is_limited:
            if self._uncharged.store(pid_hash, quantum, quantum):
                self._count_admitted(event, quantum)
        elif self._window.is_saturated():
            # The filter may have had no room for this PID before, so count the PID, but don't refuse it. If such PIDs
            # were stored, a flood could take the room of known PIDs, and so escape the quota.
            self._window.of(quantum).not_admitted.add(pid_hash)
        elif self._budget.take(tick):
            self._seen.store(pid_hash, quantum)
            self._count_admitted(event, quantum)
        else:
            is_owed = self._budget.owe()
            if is_owed:
                self._seen.store(pid_hash, quantum)
            self._refusals.add(event, tick, is_owed=is_owed)

    def _observe_late(self, pid_hash: int, tick: int) -> None:
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
        self._state.rate.record(1, self._deployment.config, event.now_ms)
        self._window.of(quantum).admitted += 1
        self._state.interval.admitted += 1

    def _report_news(self) -> bytes:
        """Return the ledger as bytes. Add a metrics row if the last row is out of date."""
        content = self._memory.to_bytes()
        if content != self._memory.reported or self._journal.late_pids:
            self._report(self._row_tick(), content)
        return content

    def _row_tick(self) -> int:
        """Return the tick of the last change in the interval. The tick does not depend on where batches end."""
        return max(self._state.clock_tick, self._state.interval.number * self._deployment.interval_ticks)

    def _report(self, tick: int, content: bytes) -> None:
        self._memory.reported = content
        self._journal.report(tick, state_bytes=len(content))

    def _move_clock(self, tick: int) -> None:
        before, quantum = self._state.clock_tick // TICKS_PER_QUANTUM, tick // TICKS_PER_QUANTUM
        self._state.clock_tick, self._refusals.tick = tick, NO_TICK
        if quantum > before:
            self._seen.advance(quantum)
            self._window.advance(quantum)
            self._refusals.count_anew()
