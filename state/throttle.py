"""The throttle of one principal: begins with a refused PID, is renewed by others, and ends by itself."""

import msgspec

from quota.config import QuotaConfig
from quota.decision import Client
from quota.episode import Episode
from quota.timeline import Timeline
from state.sketch import DistinctPids


class Throttle(msgspec.Struct, array_like=True):
    """What is stored of a principal's throttles.

    Attributes:
        episode: The throttle in force.
        refused: The PIDs that `episode` has counted.
        ended_ms: When the last throttle ended, in ms since the epoch; 0 during a throttle or before the first.
    """

    episode: Episode | None = None
    refused: DistinctPids = msgspec.field(default_factory=DistinctPids)
    ended_ms: int = 0

    def refuse(self, now_ms: int, tick: int, recovers_ms: int, config: QuotaConfig, timeline: Timeline) -> bool:
        """Begin the throttle at a refused PID, or renew it.

        Args:
            now_ms: Time of the event, in ms since the epoch.
            tick: Tick of `now_ms`.
            recovers_ms: When the bucket is no longer exhausted.
            config: The settings.
            timeline: The timeline of `config`.

        Returns:
            Whether a decision is due.
        """
        if self.episode is None:
            if tick < timeline.tick(self.ended_ms):
                # The event is older than the last release, so a throttle would already be over.
                return False
            # The event may be older than the release. Episodes of a ledger need different starts, because decision ids
            # contain them.
            begin_ms = max(now_ms, self.ended_ms + 1)
            self.episode = Episode.begin(begin_ms, tick, recovers_ms, config)
            self.refused, self.ended_ms = DistinctPids(), 0
            return True
        if self.episode.renewal_is_due(tick, recovers_ms, config, timeline):
            self.episode.renew(now_ms, tick, recovers_ms, config.min_throttle_ms)
            return True
        return False

    def count(self, pid: int, pid_hash: int, client: Client) -> None:
        """Count a refused PID for the decision. A repeat counts nothing."""
        weight = self.refused.weigh(pid_hash)
        if weight and self.episode:
            self.episode.add_refused(pid, client, weight)

    def until_ms(self) -> int:
        """Return when the throttle ends, in ms since the epoch; 0 without one."""
        return self.episode.throttled_until_ms if self.episode else 0

    def is_over(self, tick: int, timeline: Timeline) -> bool:
        """Return whether there is a throttle that ends before `tick` begins."""
        return self.episode is not None and self.episode.is_over(tick, timeline)

    def shorten(self, now_ms: int, tick: int, recovers_ms: int) -> bool:
        """Let the throttle end as soon as the bucket recovers, because the quota was raised or removed.

        Returns:
            Whether the throttle ends earlier than before.
        """
        if self.episode is None:
            return False
        # The batch may start with a late event, but the new decision must be the principal's newest.
        now_ms = max(now_ms, self.episode.decided_at_ms + 1)
        if max(now_ms, recovers_ms) >= self.episode.throttled_until_ms:
            return False
        self.episode.renew(now_ms, tick, recovers_ms, 0)
        return True

    def end(self) -> None:
        """Forget the throttle, because it is over."""
        self.ended_ms, self.episode, self.refused = self.until_ms(), None, DistinctPids()
