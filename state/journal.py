"""The output of a batch: decisions, and a metrics row per interval."""

from dataclasses import dataclass, field, replace

from quota.decision import Action, Decision, Evidence, Reason, decision_id
from quota.episode import Episode
from state.events import MetricsRow
from state.memory import Memory
from state.window import new_pids_in_window, throttle_time_avg_ms


@dataclass
class Journal:
    """The output of one batch so far.

    Attributes:
        late_pids: Number of late events since the last metrics row.
    """

    principal: str
    memory: Memory
    decisions: list[Decision] = field(default_factory=list)
    metrics: list[MetricsRow] = field(default_factory=list)
    late_pids: int = 0

    def add_decision(self, action: Action, reason: Reason, episode: Episode) -> None:
        """Add a decision about an episode.

        A THROTTLE describes the ledger at `episode.decided_at_ms`, a RELEASE at `episode.throttled_until_ms`.
        """
        self.complete_evidence()
        memory, limit, release = self.memory, self.memory.limit, action == "RELEASE"
        decided_at_ms = episode.throttled_until_ms if release else episode.decided_at_ms
        self.decisions.append(
            Decision(
                decision_id=decision_id(
                    self.principal,
                    episode.start_ms,
                    episode.renewal,
                    action,
                    limit.updated_at_ms,
                    memory.state.learning.until_ms,
                ),
                principal=self.principal,
                action=action,
                reason=reason,
                decided_at_ms=decided_at_ms,
                throttle_time_ms=0 if release else episode.throttle_time_ms,
                throttled_until_ms=episode.throttled_until_ms,
                tokens=memory.bucket.tokens(memory.deployment.timeline.tick(decided_at_ms)),
                rate=memory.state.rate.measure(memory.deployment.config, decided_at_ms),
                quota=limit.producer_ids_rate,
                burst=memory.bucket.burst(),
                quota_source=limit.source,
                quota_updated_at_ms=limit.updated_at_ms,
                evidence=episode.evidence() if release else Evidence(),
            )
        )

    def complete_evidence(self) -> None:
        """Let the last THROTTLE also describe the PIDs that were refused after it."""
        episode = self.memory.state.throttle.episode
        if episode and self.decisions and self.decisions[-1].action == "THROTTLE":
            self.decisions[-1] = replace(self.decisions[-1], evidence=episode.evidence())

    def add_row(self, tick: int, state_bytes: int) -> None:
        """Add the metrics row of the current interval, as of a tick."""
        memory, limit = self.memory, self.memory.limit
        deployment, timeline = memory.deployment, memory.deployment.timeline
        counts, as_of_ms = memory.window.live(timeline.quantum(tick)), timeline.tick_start_ms(tick)
        self.metrics.append(
            MetricsRow(
                principal=self.principal,
                window_end_ms=timeline.tick_start_ms((memory.state.interval.number + 1) * deployment.interval_ticks),
                as_of_ms=as_of_ms,
                rate=memory.state.rate.measure(deployment.config, as_of_ms),
                tokens=memory.bucket.tokens(tick),
                throttle_time_ms=memory.bucket.throttle_time_ms(tick),
                throttle_time_avg_ms=throttle_time_avg_ms(counts),
                new_pids_window=new_pids_in_window(counts, as_of_ms, deployment.config.window_ms, timeline),
                quota=limit.producer_ids_rate,
                burst=memory.bucket.burst(),
                quota_source=limit.source,
                admitted_pids=memory.state.interval.admitted,
                refused_pids=memory.state.interval.refused_pids(),
                owed_pids=memory.state.interval.owed,
                late_pids=self.late_pids,
                active_pids=memory.filter.active_pids(),
                layers=memory.filter.layers(),
                state_bytes=state_bytes,
                phase="learning" if memory.free_below(tick) else "enforcing",
                saturated=True in [each.saturated for each in counts],
            )
        )
        self.late_pids = 0
