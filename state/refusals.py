"""Refused PIDs of one principal, and the throttle that they bring about and hold."""

from quota.decision import Reason
from quota.episode import Episode
from state.events import Unsettled
from state.journal import Journal
from state.memory import Memory
from state.sketch import DistinctPids
from state.window import QuantumCounts

NO_TICK = -1


class Refusals:
    """What comes of the PIDs of a batch that get no token.

    Attributes:
        tick: The ledger's tick, if a PID was refused in it in this batch; else `NO_TICK`. In such a tick no token comes
            back and nothing is decided twice, so that `add_again` is all there is to do about another unseen PID.
    """

    def __init__(self, memory: Memory, journal: Journal) -> None:
        """Count in a ledger's memory, and write what is decided to the batch's journal."""
        self._config, self._timeline = memory.deployment.config, memory.deployment.timeline
        self._state, self._budget, self._window = memory.state, memory.budget, memory.window
        self._journal = journal
        self._counts = QuantumCounts(NO_TICK)
        self.tick = NO_TICK

    def add(self, event: Unsettled, tick: int) -> None:
        """Refuse a PID at a tick: begin a throttle, or renew the one in force if that is due."""
        throttle_time_ms = self._budget.throttle_time_ms(tick)
        # Another quantum would end the tick.
        self._counts = self._window.of(self._timeline.quantum(tick))
        self._counts.count_throttle(tick, throttle_time_ms)
        self.tick = tick
        episode, is_due = self._state.episode, True
        if episode is None:
            episode = self._state.episode = Episode.begin(event.now_ms, tick, throttle_time_ms, self._config)
            self._state.episode_refused = DistinctPids()
        elif is_due := episode.renewal_is_due(tick, self._config, self._timeline):
            episode.renew(event.now_ms, tick, throttle_time_ms, self._config)
        self.add_again(event.pid, event.pid_hash, event.client_id)
        if is_due:
            self._journal.decide("THROTTLE", "over_quota", episode)

    def add_again(self, pid: int, pid_hash: int, client_id: str) -> None:
        """Refuse a PID in a tick that has refused one."""
        self._counts.unstored.add(pid_hash)
        self._state.interval.refused.add(pid_hash)
        weight = self._state.episode_refused.weigh(pid_hash)
        if weight and self._state.episode:
            self._state.episode.add_refused(pid, client_id, weight)

    def end_if_over(self, tick: int) -> None:
        """Say the release if the throttle has ended by a tick."""
        episode = self._state.episode
        if episode and episode.is_over(tick, self._timeline):
            self._end(episode, "throttle_ended")

    def shorten(self, now_ms: int, tick: int) -> None:
        """Let the throttle in force end when the bucket recovers under a quota that was raised, or removed."""
        episode, throttle_time_ms = self._state.episode, self._budget.throttle_time_ms(tick)
        if episode is None:
            return
        # A late event may begin the batch, or one of the same tick: of a principal's rows the newest holds.
        now_ms = max(now_ms, episode.decided_at_ms)
        if now_ms + throttle_time_ms >= episode.throttled_until_ms:
            return
        episode.shorten(now_ms, tick, throttle_time_ms)
        # A huge quota takes less than a millisecond, but the token comes with the next tick: nothing may throttle anew.
        if self._budget.is_exhausted(tick):
            self._journal.decide("THROTTLE", "quota_changed", episode)
        else:
            self._end(episode, "quota_changed")

    def _end(self, episode: Episode, reason: Reason) -> None:
        self._journal.decide("RELEASE", reason, episode)
        self._state.episode, self._state.episode_refused = None, DistinctPids()
        self.tick = NO_TICK
