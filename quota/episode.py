"""An episode: a throttle from its first refused PID to its release.

The rules compare whole ticks, so a second refusal of a PID within a tick changes nothing.
"""

import msgspec

from quota.config import QuotaConfig
from quota.decision import MAX_CLIENTS, MAX_SAMPLE_PIDS, OTHER_CLIENTS, Client, Evidence
from quota.timeline import Timeline


class Episode(msgspec.Struct, array_like=True):
    """A throttle in force on one principal. Times are milliseconds since the epoch.

    Attributes:
        start_ms: When the first PID was refused, but at least 1 ms after the release before.
        decided_at_ms: When the latest THROTTLE was decided.
        decided_tick: Tick of the latest THROTTLE.
        throttled_until_ms: When the throttle ends, unless a later refusal renews it.
        throttle_time_ms: Time from the latest THROTTLE until the bucket is no longer exhausted.
        refused: Estimated number of distinct refused PIDs.
    """

    start_ms: int
    decided_at_ms: int
    decided_tick: int
    throttled_until_ms: int
    throttle_time_ms: int
    renewal: int = 0
    refused: float = 0.0
    sample_pids: list[int] = msgspec.field(default_factory=list)
    client_ids: dict[str, float] = msgspec.field(default_factory=dict)
    addresses: dict[str, float] = msgspec.field(default_factory=dict)

    @classmethod
    def begin(cls, now_ms: int, tick: int, recovers_ms: int, config: QuotaConfig) -> "Episode":
        """Begin an episode at the first refused PID. Times and tick are those of `renew`."""
        episode = cls(now_ms, now_ms, tick, now_ms, 0)
        episode._set_end(recovers_ms, config.min_throttle_ms)
        return episode

    def is_over(self, tick: int, timeline: Timeline) -> bool:
        """Return whether a tick begins after `throttled_until_ms`."""
        return timeline.tick_start_ms(tick) > self.throttled_until_ms

    def renewal_is_due(self, tick: int, recovers_ms: int, config: QuotaConfig, timeline: Timeline) -> bool:
        """Return whether a refusal in this tick renews the throttle.

        It does if `min_throttle_seconds` have passed, or if the renewed throttle lasts at least twice as long. So a few
        decisions suffice for a flood, wherever batches end. Durations count from the start of the tick in which a
        throttle is decided.
        """
        if tick - self.decided_tick >= timeline.ticks_in(config.min_throttle_seconds * 1000):
            return True
        lasts_ms = max(recovers_ms - timeline.tick_start_ms(tick), config.min_throttle_ms)
        lasted_ms = self.throttled_until_ms - timeline.tick_start_ms(self.decided_tick)
        return lasts_ms >= 2 * max(1, lasted_ms)

    def renew(self, now_ms: int, tick: int, recovers_ms: int, min_throttle_ms: int) -> None:
        """Renew the throttle, or shorten it after the quota was raised or removed.

        The new decision is later than the one before, because the newest decision counts.

        Args:
            now_ms: Time of the decision, unless that must be later.
            tick: Tick of `now_ms`.
            recovers_ms: When the bucket is no longer exhausted. This time does not depend on `now_ms`, so a renewal
                under the same quota never shortens the throttle.
            min_throttle_ms: Minimum duration of the throttle.
        """
        self.renewal += 1
        self.decided_at_ms, self.decided_tick = max(now_ms, self.decided_at_ms + 1), tick
        self._set_end(recovers_ms, min_throttle_ms)

    def _set_end(self, recovers_ms: int, min_throttle_ms: int) -> None:
        self.throttle_time_ms = max(0, recovers_ms - self.decided_at_ms)
        self.throttled_until_ms = self.decided_at_ms + max(self.throttle_time_ms, min_throttle_ms)

    def add_refused(self, pid: int, client: Client, weight: float) -> None:
        """Count a refused PID that stands for `weight` distinct PIDs (`DistinctPids.weigh`)."""
        self.refused += weight
        if len(self.sample_pids) < MAX_SAMPLE_PIDS:
            self.sample_pids.append(pid)
        client_id, address = client
        _count(self.client_ids, client_id, weight)
        if address:
            _count(self.addresses, address, weight)

    def evidence(self) -> Evidence:
        """Return the refused PIDs so far."""
        client_ids, addresses = (
            {name: round(count) for name, count in counts.items()} for counts in (self.client_ids, self.addresses)
        )
        return Evidence(round(self.refused), tuple(self.sample_pids), client_ids, addresses)


def _count(counts: dict[str, float], name: str, weight: float) -> None:
    if name in counts:
        counts[name] += weight
        return
    own = name if len(counts) < MAX_CLIENTS - 1 else OTHER_CLIENTS
    counts[own] = counts.get(own, 0.0) + weight
