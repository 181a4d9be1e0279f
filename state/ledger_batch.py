"""Applies the rule to a batch of one principal's events. Events change a ledger only here.

Tokens refill only between ticks. So within a tick, a PID that took a token stays known, and a PID that was refused
without taking a token stays refused.
"""

from quota.config import TICKS_PER_QUANTUM
from quota.decision import Client, Reason
from quota.limits import Limit
from state.events import LEARNING, Event, Events, Outcome
from state.hashing import hash_pids
from state.journal import Journal
from state.memory import Memory
from state.rules import Ruling, decide
from state.window import IntervalCounts

_NO_TICK = -1


class LedgerBatch:
    """A batch in progress. `Ledger.batch` opens it."""

    def __init__(self, memory: Memory, journal: Journal, limit: Limit, first_ms: int) -> None:
        """Advance the ledger to the first event's time `first_ms`, then put the quota in force."""
        self._memory, self._state, self._journal = memory, memory.state, journal
        self._deployment, self._timeline = memory.deployment, memory.deployment.timeline
        self._tick = memory.state.clock_tick
        self._refusing_tick = _NO_TICK
        self._may_have_news = False
        # Until this batch, refills and releases follow the previous quota, as they do if the ledger is evicted first.
        first_tick = self._timeline.tick(first_ms)
        if first_tick > self._tick:
            self._advance(first_tick)
        self._may_have_news = True
        self._put_in_force(limit, max(first_tick, memory.state.clock_tick), first_ms)

    def feed(self, events: Events) -> None:
        """Apply some of the batch's events, in offset order."""
        memory, state, timeline = self._memory, self._state, self._timeline
        tick = begin_ms = end_ms = -1
        is_late, free_below = False, 0
        hashes = events.hashes or hash_pids(events.pids, self._deployment.salt)
        columns = zip(events.pids, hashes, events.timestamps_ms, events.clients, events.kinds, strict=True)
        for pid, pid_hash, timestamp_ms, client, kind in columns:
            if not begin_ms <= timestamp_ms < end_ms:
                tick = timeline.tick(timestamp_ms)
                begin_ms, end_ms = timeline.tick_start_ms(tick), timeline.tick_start_ms(tick + 1)
                # These hold for all events of the tick, because none of them moves the clock beyond the tick.
                if tick > self._tick:
                    self._advance(tick)
                is_late = tick < state.clock_tick and self._deployment.is_late(tick, state.clock_tick)
                free_below = memory.free_below(max(tick, state.clock_tick))
            if is_late:
                self._apply_late(pid_hash, tick)
            elif not memory.filter.holds_in_current(pid_hash):
                is_learning = kind == LEARNING or pid < free_below
                if tick <= self._refusing_tick and not is_learning and memory.filter.find(pid_hash) is None:
                    # A speed-up for floods (`bench/speedups.py`). The rule refuses the tick's other unseen PIDs, too.
                    self._count_refused(pid, pid_hash, client)
                    continue
                now_tick = max(tick, state.clock_tick)
                now_ms = timestamp_ms if now_tick == tick else timeline.tick_start_ms(now_tick)
                ruling = decide(memory, pid_hash, now_tick, is_learning=is_learning)
                self._apply(ruling, Event(pid, pid_hash, now_ms, client), now_tick)

    def end(self) -> Outcome:
        """End the batch and return its result."""
        self._journal.complete_evidence()
        content = self._report_news()
        return Outcome(tuple(self._journal.decisions), tuple(self._journal.metrics), content)

    def _apply(self, ruling: Ruling, event: Event, tick: int) -> None:
        """Apply a ruling to a PID that the current quantum does not hold. `tick` is not before the clock's tick."""
        memory, pid_hash, quantum = self._memory, event.pid_hash, self._timeline.quantum(tick)
        if tick > self._state.clock_tick:
            self._move_clock(tick)
        match ruling:
            case Ruling.KNOWN:
                memory.refresh(pid_hash, quantum, quantum)
            case Ruling.FREE:
                self._store_uncharged(pid_hash, quantum, quantum)
            case Ruling.UNLIMITED:
                if self._store_uncharged(pid_hash, quantum, quantum):
                    self._count_admitted(event, quantum)
            case Ruling.UNSTORED:
                memory.window.open(quantum).not_admitted.add(pid_hash)
            case Ruling.ADMITTED:
                memory.store_charged(pid_hash, tick)
                self._count_admitted(event, quantum)
            case Ruling.OWED:
                memory.store_charged(pid_hash, tick)
                self._refuse(event, tick, is_owed=True)
            case Ruling.REFUSED:
                self._refuse(event, tick, is_owed=False)
                self._refusing_tick = tick
        # If a throttle began, events of known PIDs may have moved `_tick` beyond the throttle's end. So advance again
        # at the next tick.
        self._tick = self._state.clock_tick

    def _apply_late(self, pid_hash: int, tick: int) -> None:
        """Store the PID of a late event in the event's own quantum. It takes no token and is never refused."""
        self._journal.late_pids += 1
        memory, quantum = self._memory, self._timeline.quantum(tick)
        current = self._timeline.quantum(self._state.clock_tick)
        if quantum < current - self._deployment.config.layer_count:
            return
        if memory.filter.find(pid_hash) is None:
            self._store_uncharged(pid_hash, quantum, current)
        else:
            memory.refresh(pid_hash, quantum, current)

    def _store_uncharged(self, pid_hash: int, quantum: int, current: int) -> bool:
        is_stored = self._memory.store_uncharged(pid_hash, quantum, current)
        if not is_stored:
            # The ledger is saturated now, so the rest of this tick refuses nothing.
            self._refusing_tick = _NO_TICK
        return is_stored

    def _count_admitted(self, event: Event, quantum: int) -> None:
        self._state.rate.record(1, self._deployment.config, event.now_ms)
        self._memory.window.open(quantum).admitted += 1
        self._state.interval.admitted += 1

    def _refuse(self, event: Event, tick: int, *, is_owed: bool) -> None:
        """Refuse a PID. Begin a throttle, or renew the throttle if a renewal is due."""
        memory, throttle, quantum = self._memory, self._state.throttle, self._timeline.quantum(tick)
        recovers_ms = memory.bucket.recovers_ms(tick)
        memory.window.open(quantum).count_throttle(tick, recovers_ms - self._timeline.tick_start_ms(tick))
        is_due = throttle.refuse(event.now_ms, tick, recovers_ms, self._deployment.config, self._timeline)
        if is_owed:
            memory.window.count_owed(event.pid_hash, quantum)
            self._state.interval.count_owed(event.pid_hash)
            throttle.count(event.pid, event.pid_hash, event.client)
        else:
            self._count_refused(event.pid, event.pid_hash, event.client)
        if is_due:
            self._add_throttle_decision("over_quota")

    def _count_refused(self, pid: int, pid_hash: int, client: Client) -> None:
        """Count a refused PID that took no token, in the clock's tick."""
        self._memory.window.newest().not_admitted.add(pid_hash)
        self._state.interval.refused.add(pid_hash)
        self._state.throttle.count(pid, pid_hash, client)

    def _put_in_force(self, limit: Limit, tick: int, first_ms: int) -> None:
        memory, before = self._memory, self._memory.limit
        if limit == before:
            return
        has_news = memory.to_bytes() != memory.reported
        memory.set_limit(limit)
        if not limit.counts_as(before):
            has_grown = memory.bucket.change_quota(limit, tick)
            if before.producer_ids_rate is None:
                # Otherwise, a flood that began without a quota would be exempt from the quota set against the flood.
                memory.window.drop_excuses()
            if has_grown or before.allows_less_than(limit):
                self._shorten_throttle(max(first_ms, self._timeline.tick_start_ms(tick)), tick)
        if not (has_news or self._journal.decisions):
            # A changed quota alone causes no metrics row.
            memory.reported = memory.to_bytes()

    def _shorten_throttle(self, now_ms: int, tick: int) -> None:
        """Let the throttle end when the bucket recovers under the new quota, even before the minimum duration."""
        bucket = self._memory.bucket
        if not self._state.throttle.shorten(now_ms, tick, bucket.recovers_ms(tick)):
            return
        # Under a huge quota, the bucket may recover now, but stay exhausted until the next tick. So keep the throttle.
        # Otherwise, a refusal in this tick would start another throttle.
        if bucket.has_token(tick):
            self._release("quota_changed")
        else:
            self._add_throttle_decision("quota_changed")

    def _add_throttle_decision(self, reason: Reason) -> None:
        if self._state.throttle.episode:
            self._journal.add_decision("THROTTLE", reason, self._state.throttle.episode)

    def _release(self, reason: Reason) -> None:
        if self._state.throttle.episode:
            self._journal.add_decision("RELEASE", reason, self._state.throttle.episode)
            self._state.throttle.end()
            self._refusing_tick = _NO_TICK

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
        if tick // TICKS_PER_QUANTUM > state.clock_tick // TICKS_PER_QUANTUM:
            self._move_clock(tick)
        if state.throttle.is_over(tick, self._timeline):
            self._release("throttle_ended")

    def _move_clock(self, tick: int) -> None:
        before, quantum = self._timeline.quantum(self._state.clock_tick), self._timeline.quantum(tick)
        self._state.clock_tick, self._refusing_tick = tick, _NO_TICK
        if quantum > before:
            self._memory.filter.advance(quantum)
            self._memory.window.advance(quantum)

    def _report_news(self) -> bytes:
        """Return the ledger as bytes. Add a metrics row if the last row is out of date."""
        content = self._memory.to_bytes()
        if content != self._memory.reported or self._journal.late_pids:
            # The last change in the interval does not depend on where batches end.
            begin_tick = self._state.interval.number * self._deployment.interval_ticks
            self._report(max(self._state.clock_tick, begin_tick), content)
        return content

    def _report(self, tick: int, content: bytes) -> None:
        self._memory.reported = content
        self._journal.add_row(tick, state_bytes=len(content))
