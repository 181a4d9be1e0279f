"""Refuses PIDs of one principal, and starts, renews and ends the throttle."""

from typing import TYPE_CHECKING

from quota.decision import Client, Reason
from quota.episode import Episode
from state.coupons import NO_COUPON, covered_by
from state.events import Unsettled
from state.journal import Journal
from state.memory import Memory
from state.sketch import DistinctPids

if TYPE_CHECKING:
    from state.window import QuantumCounts

NO_TICK = -1


class Refusals:
    """Refuses the PIDs that come while the bucket is exhausted.

    Attributes:
        tick: The current tick if this batch has refused a PID in it that took no token, else `NO_TICK`. In this tick,
            `add_again` suffices for another unseen PID that is not free.
        have_begun: Whether this batch has refused a PID.
        counted: Coupons (`state.coupons`) that no longer change the sketches of refused PIDs.
    """

    def __init__(self, memory: Memory, journal: Journal) -> None:
        self._config, self._timeline = memory.deployment.config, memory.deployment.timeline
        self._state, self._budget, self._window = memory.state, memory.budget, memory.window
        self._journal = journal
        self._counts: QuantumCounts
        self.have_begun, self.tick = False, NO_TICK
        self.counted: set[int] = set()
        self._have_registers = False

    def add(self, event: Unsettled, tick: int, *, is_owed: bool) -> None:
        """Refuse a PID. Start a throttle, or renew the throttle if a renewal is due.

        `is_owed` tells whether the PID took a token, and is stored.
        """
        recovers_ms = self._budget.recovers_ms(tick)
        # These counts serve the whole tick, because a tick lies within one quantum.
        self._counts = self._window.of(self._timeline.quantum(tick))
        self._counts.count_throttle(tick, recovers_ms - self._timeline.tick_start_ms(tick))
        self.have_begun, self.tick = True, NO_TICK if is_owed else tick
        episode, is_due = self._state.episode, True
        if episode is None and tick < self._timeline.tick(self._state.ended_ms):
            # The event is older than the last release, so a throttle would already be over.
            self._count(event, is_owed=is_owed)
            return
        if episode is None:
            # Callers may leave out the later events of a PID in a tick, so compare ticks. The event may be older than
            # the release. Episodes of a ledger need different starts, because decision ids contain them.
            begin_ms = max(event.now_ms, self._state.ended_ms + 1)
            episode = self._state.episode = Episode.begin(begin_ms, tick, recovers_ms, self._config)
            self._state.episode_refused, self._state.ended_ms = DistinctPids(), 0
            self.count_anew()
        elif is_due := episode.renewal_is_due(tick, recovers_ms, self._config, self._timeline):
            episode.renew(event.now_ms, tick, recovers_ms, self._config.min_throttle_ms)
        self._count(event, is_owed=is_owed)
        if is_due:
            self._journal.decide("THROTTLE", "over_quota", episode)

    def _count(self, event: Unsettled, *, is_owed: bool) -> None:
        if not is_owed:
            self.add_again(event.pid, event.pid_hash, event.client)
            return
        self._window.count_owed(event.pid_hash, self._counts.quantum)
        self._state.interval.count_owed(event.pid_hash)
        self._count_in_episode(event.pid, event.pid_hash, event.client)

    def add_again(self, pid: int, pid_hash: int, client: Client, coupon: int = NO_COUPON) -> None:
        """Count a refused PID that took no token, in the tick of the last call of `add`."""
        self._counts.not_admitted.add(pid_hash)
        self._state.interval.refused.add(pid_hash)
        self._count_in_episode(pid, pid_hash, client)
        if coupon != NO_COUPON:
            self._note(coupon)

    def _count_in_episode(self, pid: int, pid_hash: int, client: Client) -> None:
        weight = self._state.episode_refused.weigh(pid_hash)
        if weight and self._state.episode:
            self._state.episode.add_refused(pid, client, weight)

    def count_anew(self) -> None:
        """Clear `counted`, because one of the sketches was replaced."""
        self._have_registers = False
        self.counted.clear()

    def _note(self, coupon: int) -> None:
        if not self._have_registers:
            sketches = (self._counts.not_admitted, self._state.interval.refused, self._state.episode_refused)
            self._have_registers = all(each.has_registers() for each in sketches)
        if self._have_registers:
            self.counted.update(covered_by(coupon))

    def end_if_over(self, tick: int) -> None:
        """Release the throttle if it is over at a tick."""
        episode = self._state.episode
        if episode and episode.is_over(tick, self._timeline):
            self._end(episode, "throttle_ended")

    def shorten(self, now_ms: int, tick: int) -> None:
        """Let the throttle end as soon as the bucket recovers, because the quota was raised or removed."""
        episode, recovers_ms = self._state.episode, self._budget.recovers_ms(tick)
        if episode is None:
            return
        # The batch may start with a late event, but the new decision must be the principal's newest.
        now_ms = max(now_ms, episode.decided_at_ms + 1)
        if max(now_ms, recovers_ms) >= episode.throttled_until_ms:
            return
        episode.renew(now_ms, tick, recovers_ms, 0)
        # Under a huge quota, `recovers_ms` may be now, but the bucket stays exhausted until the next tick. So keep the
        # episode. Otherwise, a refusal in this tick would start another throttle.
        if self._budget.is_exhausted(tick):
            self._journal.decide("THROTTLE", "quota_changed", episode)
        else:
            self._end(episode, "quota_changed")

    def _end(self, episode: Episode, reason: Reason) -> None:
        self._journal.decide("RELEASE", reason, episode)
        self._state.ended_ms = episode.throttled_until_ms
        self._state.episode, self._state.episode_refused = None, DistinctPids()
        self.tick = NO_TICK
