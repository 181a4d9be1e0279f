"""Breaks the rules on purpose, one at a time, and says how many histories it takes to see it.

Run it with `.venv/bin/python tests/fuzz/mutants.py [NAME ...]`; it ends with 1 if one of them is not found.
"""

import secrets
import sys
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
from msgspec import structs

import quota.bucket as bucket_module
import state.journal as journal_module
import state.ledger_batch as ledger_batch_module
import streaming.operator.ledger_group as ledger_group_module
from quota.bucket import BucketTerms, TokenBucket
from quota.episode import Episode
from quota.limits import Limit
from quota.timeline import Timeline
from state.codec import decode, encode
from state.events import LEARNING, Deployment
from state.learning import Learning
from state.ledger import Ledger
from state.ledger_batch import LedgerBatch
from state.memory import Memory
from state.rules import Ruling
from state.throttle import Throttle
from streaming.batch import context
from streaming.decode import packing, preaggregate
from streaming.operator import group_events
from streaming.operator.ledger_group import LedgerGroup
from streaming.operator.ledger_operator import Operator
from tests.fuzz.mutation import Mutants
from tests.fuzz.run import run

MOST = 2000
MUTANTS = Mutants()


@MUTANTS.of(LedgerGroup, "put")
def a_refresh_in_a_tick_that_the_clock_has_reached_is_not_stored(put: Any) -> Any:
    def told(state: Any) -> object:
        return state.clock_tick, state.limit, state.interval.number, state.interval.admitted

    def forgetful(self: LedgerGroup, principal: str, held: Any) -> None:
        before = self.get(principal)
        if before and held and before.content[:3] == b"PQL":
            old, new = decode(before.content), decode(held.content)
            if told(old) == told(new):
                return
        put(self, principal, held)

    return forgetful


@MUTANTS.of(Memory, "store_uncharged")
def late_pids_pass_the_cap(store: Any) -> Any:
    def roomy(self: Memory, pid_hash: int, quantum: int, current: int) -> Any:
        if quantum < current:
            return self.filter.store(pid_hash, quantum)
        return store(self, pid_hash, quantum, current)

    return roomy


@MUTANTS.of(context, "furthest")
def a_ledger_is_forgotten_by_the_newest_time_of_any_partition(furthest: Any) -> Any:
    def of_any(event_times: Any, latest: Any) -> dict[int, int]:
        newest = max(furthest(event_times, latest).values(), default=0)
        return dict.fromkeys(range(3), newest)

    return of_any


@MUTANTS.of(LedgerBatch, "_refuse")
def a_refused_pid_beyond_the_debt_is_stored(refuse: Any) -> Any:
    def storing(
        self: LedgerBatch, ruling: Ruling, pid: int, pid_hash: int, client: Any, tick: int, now_ms: int
    ) -> None:
        refuse(self, ruling, pid, pid_hash, client, tick, now_ms)
        if ruling is Ruling.REFUSED:
            self._memory.filter.store(pid_hash, self._timeline.quantum(tick))

    return storing


@MUTANTS.of(ledger_batch_module, "decide")
def an_owed_pid_is_not_stored(decide: Any) -> Any:
    def taking_only(memory: Memory, pid_hash: int, tick: int, *, is_learning: bool) -> Ruling:
        ruling: Ruling = decide(memory, pid_hash, tick, is_learning=is_learning)
        if ruling is Ruling.OWED:
            memory.bucket.take_token(tick)
            return Ruling.REFUSED
        return ruling

    return taking_only


@MUTANTS.of(LedgerBatch, "_refuse")
def an_owed_pid_settles_its_tick(refuse: Any) -> Any:
    def settling(
        self: LedgerBatch, ruling: Ruling, pid: int, pid_hash: int, client: Any, tick: int, now_ms: int
    ) -> None:
        refuse(self, ruling, pid, pid_hash, client, tick, now_ms)
        self._refusing_tick = tick

    return settling


@MUTANTS.of(TokenBucket, "has_credit")
def a_debt_has_no_limit(_: Any) -> Any:
    return lambda self, tick: self.has_quota


@MUTANTS.of(TokenBucket, "has_credit")
def a_debt_exceeds_its_limit_by_a_part_of_a_token(_: Any) -> Any:
    return lambda self, tick: self.tokens(tick) > -self.debt()


@MUTANTS.of(Episode, "renewal_is_due")
def a_throttle_that_doubles_is_not_renewed(_: Any) -> Any:
    def by_time(self: Episode, tick: int, _recovers_ms: int, config: Any, timeline: Timeline) -> bool:
        return tick - self.decided_tick >= timeline.ticks_in(config.min_throttle_seconds * 1000)

    return by_time


@MUTANTS.of(Episode, "renewal_is_due")
def a_throttle_doubles_from_the_shortest_one(_: Any) -> Any:
    def from_the_shortest(self: Episode, tick: int, recovers_ms: int, config: Any, timeline: Timeline) -> bool:
        if tick - self.decided_tick >= timeline.ticks_in(config.min_throttle_seconds * 1000):
            return True
        return recovers_ms - timeline.tick_start_ms(tick) >= 2 * max(1, int(config.min_throttle_ms))

    return from_the_shortest


@MUTANTS.of(Episode, "renewal_is_due")
def a_throttle_is_renewed_after_half_of_the_shortest_one(due: Any) -> Any:
    def early(self: Episode, tick: int, recovers_ms: int, config: Any, timeline: Timeline) -> Any:
        half = timeline.ticks_in(config.min_throttle_seconds * 500)
        return tick - self.decided_tick >= half or due(self, tick, recovers_ms, config, timeline)

    return early


@MUTANTS.of(TokenBucket, "take_token")
def tokens_come_back_within_a_tick(take: Any) -> Any:
    def generous(self: TokenBucket, tick: int) -> None:
        if self._terms and self._units is not None and self._tick == tick:
            self._units = min(self._terms.burst_units, self._units + self._terms.refill_per_ms)
        take(self, tick)

    return generous


@MUTANTS.of(ledger_batch_module, "decide")
def a_refresh_is_charged(decide: Any) -> Any:
    def charging(memory: Memory, pid_hash: int, tick: int, *, is_learning: bool) -> Any:
        ruling = decide(memory, pid_hash, tick, is_learning=is_learning)
        if ruling is Ruling.KNOWN and memory.bucket.has_token(tick):
            memory.bucket.take_token(tick)
        return ruling

    return charging


@MUTANTS.of(packing, "_kinds")
def a_learning_mark_is_ignored(kinds: Any) -> Any:
    return lambda events: np.where(kinds(events) == LEARNING, 0, kinds(events))


@MUTANTS.of(Learning, "free_below")
def whatever_learns_learns_every_pid(free_below: Any) -> Any:
    return lambda self, at_ms: 2**63 if free_below(self, at_ms) else 0


@MUTANTS.of(Learning, "free_below")
def a_bound_is_old_itself(free_below: Any) -> Any:
    return lambda self, at_ms: free_below(self, at_ms) + 1 if at_ms < self.until_ms else 0


@MUTANTS.of(Learning, "free_below")
def an_unknown_bound_is_0(free_below: Any) -> Any:
    return lambda self, at_ms: 0 if self.below is None else free_below(self, at_ms)


@MUTANTS.of(Operator, "_learning")
def a_lost_ledger_learns_by_the_bound_of_the_stream(learning: Any) -> Any:
    return lambda self, begin_ms: Learning(learning(self, begin_ms).until_ms, self.deployment.learn_below)


@MUTANTS.of(Memory, "free_below")
def the_stream_does_not_learn(_: Any) -> Any:
    return lambda self, tick: self.state.learning.free_below(self.deployment.timeline.tick_start_ms(tick))


@MUTANTS.of(Memory, "free_below")
def a_refusal_refuses_what_is_old_in_its_tick(free_below: Any) -> Any:
    def unless_refused(self: Memory, tick: int) -> Any:
        return (
            0
            if self.window.open(self.deployment.timeline.quantum(tick)).last_throttled_tick == tick
            else free_below(self, tick)
        )

    return unless_refused


@MUTANTS.of(Episode, "renewal_is_due")
def a_throttle_is_renewed_a_tick_early(due: Any) -> Any:
    return lambda self, tick, recovers_ms, config, timeline: due(self, tick + 1, recovers_ms, config, timeline)


@MUTANTS.of(TokenBucket, "change_quota")
def a_quota_refills_the_time_before_it(change: Any) -> Any:
    def at_once(self: TokenBucket, limit: Limit, _tick: int) -> Any:
        return change(self, limit, self._tick)

    return at_once


@MUTANTS.of(LedgerBatch, "_expire")
def what_expired_keeps_its_rate(expire: Any) -> Any:
    def keeping(self: LedgerBatch) -> None:
        rate = self._state.rate
        expire(self)
        self._state.rate = rate

    return keeping


@MUTANTS.of(packing, "_clients")
def a_client_id_has_one_address(clients: Any) -> Any:
    def merged(groups: Any) -> Any:
        named, codes = clients(groups)
        address_of = dict(named)
        return [(client_id, address_of[client_id]) for client_id, _ in named], codes

    return merged


@MUTANTS.of(Throttle, "refuse")
def a_throttle_is_measured_from_its_event(refuse: Any) -> Any:
    def shifted(self: Throttle, now_ms: int, tick: int, recovers_ms: int, config: Any, timeline: Timeline) -> Any:
        since_ms = now_ms - timeline.tick_start_ms(tick)
        return refuse(self, now_ms, tick, recovers_ms + since_ms, config, timeline)

    return shifted


@MUTANTS.of(Episode, "add_refused")
def the_client_counted_is_always_the_first_ones(add_refused: Any) -> Any:
    def careless(self: Episode, pid: int, client: Any, weight: float) -> None:
        add_refused(self, pid, (next(iter(self.client_ids), client[0]), client[1]), weight)

    return careless


@MUTANTS.of(preaggregate, "decode")
def events_of_a_record_are_all_dated_as_the_first(events_of: Any) -> Any:
    def flat(*arguments: Any) -> Any:
        decoded = events_of(*arguments)
        events = decoded.events
        first = np.flatnonzero(np.diff(events.record(), prepend=-1))
        times = events.timestamps_ms[first][np.cumsum(np.diff(events.record(), prepend=-1) != 0) - 1]
        return replace(decoded, events=replace(events, timestamps_ms=times))

    return flat


@MUTANTS.of(TokenBucket, "change_quota")
def a_raised_rate_brings_tokens_too(change: Any) -> Any:
    def generous(self: TokenBucket, limit: Limit, tick: int) -> Any:
        rate, burst = limit.producer_ids_rate, limit.producer_ids_burst
        if rate is not None and burst is None:
            burst = rate * self._config.burst_windows
        return change(self, structs.replace(limit, producer_ids_burst=burst), tick)

    return generous


@MUTANTS.of(Memory, "to_bytes")
def a_burst_is_forgotten_with_the_batch(to_bytes: Any) -> Any:
    def forgetful(self: Memory) -> bytes:
        stored = decode(to_bytes(self))
        stored.limit = structs.replace(stored.limit, producer_ids_burst=None)
        return encode(stored)

    return forgetful


@MUTANTS.of(bucket_module, "bucket_terms")
def a_bucket_of_its_own_burst_holds_the_default_one(terms: Any) -> Any:
    return lambda rate, _burst, config: terms(rate, None, config)


@MUTANTS.of(TokenBucket, "_units_at")
def a_smaller_burst_takes_what_is_above_it_not_away(units_at: Any) -> Any:
    def unclamped(self: TokenBucket, terms: BucketTerms, tick: int) -> Any:
        most = max(terms.burst_units, self._units or 0)
        return units_at(self, replace(terms, burst_units=most), tick)

    return unclamped


@MUTANTS.of(TokenBucket, "_units_at")
def a_lowered_quota_leaves_the_debt(units_at: Any) -> Any:
    def deep(self: TokenBucket, terms: BucketTerms, tick: int) -> Any:
        return units_at(self, replace(terms, least_units=-(10**40)), tick)

    return deep


@MUTANTS.of(TokenBucket, "change_quota")
def a_larger_burst_brings_nothing_at_once(change: Any) -> Any:
    def plain(self: TokenBucket, limit: Limit, tick: int) -> bool:
        change(self, structs.replace(limit, producer_ids_burst=None), tick)
        self._terms = self._terms_of(limit)
        return False

    return plain


def _renewed_at_once(self: Episode, now_ms: int, tick: int, recovers_ms: int, min_throttle_ms: int) -> None:
    self.renewal += 1
    self.decided_at_ms, self.decided_tick = max(now_ms, self.decided_at_ms), tick
    self._set_end(recovers_ms, min_throttle_ms)


@MUTANTS.of(Operator, "_now_ms")
def a_changed_quota_reaches_who_is_silent_up_to_a_quantum_ahead_of_events(_: Any) -> Any:
    def ahead(self: Operator, partition: int) -> int:
        newest_ms = self.batch.context().before.event_times.get(partition, 0)
        return min(newest_ms + self.deployment.config.quantum_ms, self.batch.context().begin_ms or newest_ms)

    return ahead


@MUTANTS.of(Operator, "_now_ms")
def a_changed_quota_reaches_who_is_silent_by_the_events_of_another_partition(now: Any) -> Any:
    def of_the_newest(self: Operator, partition: int) -> int:
        times = self.batch.context().before.event_times
        return int(now(self, max(times, key=lambda each: times[each], default=partition)))

    return of_the_newest


MUTANTS |= {
    "a_renewal_has_the_time_of_the_throttle_before_it": lambda: patch.object(Episode, "renew", _renewed_at_once),
    "pids_are_salted_but_not_mixed": lambda: patch.object(
        group_events, "hash_pids", lambda pids, salt: [pid ^ salt for pid in pids]
    ),
    "a_release_comes_a_tick_early": lambda: patch.object(
        Episode, "is_over", lambda self, tick, timeline: timeline.tick_start_ms(tick + 1) > self.throttled_until_ms
    ),
    "a_late_event_is_charged": lambda: patch.object(Deployment, "is_late", lambda *_: False),
    "a_raised_quota_leaves_the_throttle_in_force": lambda: patch.object(Throttle, "shorten", lambda *_: False),
    "any_other_quota_ends_a_throttle_sooner": lambda: patch.object(Limit, "allows_less_than", lambda *_: True),
    "a_decision_id_depends_on_the_batch_and_not_on_the_episode": lambda: patch.object(
        journal_module, "decision_id", lambda *_: secrets.token_hex(12)
    ),
    "after_a_lost_ledger_nothing_is_learned": lambda: patch.object(Ledger, "extend_learning", lambda *_: None),
    "a_burst_changed_alone_is_not_heard_of": lambda: patch.object(
        Limit, "counts_as", lambda self, other: self.producer_ids_rate == other.producer_ids_rate
    ),
    "a_changed_quota_does_not_reach_who_is_silent": lambda: patch.object(
        Ledger, "change_quota", lambda self, limit, at_ms: None
    ),
    "a_throttled_group_is_not_called_without_events": lambda: patch.object(
        ledger_group_module, "_NEXT_BATCH_MS", 10**9
    ),
}


if __name__ == "__main__":
    sys.exit(MUTANTS.main(lambda seed: run([seed]).mismatches, MOST))
