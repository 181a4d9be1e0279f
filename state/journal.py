"""What a ledger says of a batch: its decisions, and a metrics row per interval."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from quota.decision import Action, Decision, Evidence, Reason, decision_id
from quota.episode import Episode
from quota.limits import UNLIMITED, Limit
from state.budget import Budget
from state.codec import LedgerState
from state.events import Deployment, MetricsRow
from state.layers import LayeredBloomFilter
from state.window import QuantumCounts, new_pids_in_window, throttle_time_avg_ms


@dataclass
class Journal:
    """The output of one batch so far.

    Attributes:
        principal: KafkaPrincipal the ledger belongs to.
        broker_id: Broker that the budget is for, None if it is for the cluster.
        deployment: What all ledgers share.
        limit: The quota in force.
        decisions: In the order they were taken.
        metrics: One row per interval with something to say.
        late_pids: Late events since the last row.
    """

    principal: str
    broker_id: int | None
    deployment: Deployment
    limit: Limit = UNLIMITED
    decisions: list[Decision] = field(default_factory=list)
    metrics: list[MetricsRow] = field(default_factory=list)
    late_pids: int = 0

    def decide(self, action: Action, reason: Reason, episode: Episode, state: LedgerState, budget: Budget) -> None:
        """Add a decision about an episode, as of its `decided_at`; a RELEASE as of its `throttled_until`."""
        self.settle(episode)
        release = action == "RELEASE"
        decided_at_ms = episode.throttled_until_ms if release else episode.decided_at_ms
        self.decisions.append(
            Decision(
                decision_id=decision_id(self.principal, self.broker_id, episode.start_ms, episode.renewal, action),
                principal=self.principal,
                broker_id=self.broker_id,
                action=action,
                reason=reason,
                decided_at_ms=decided_at_ms,
                throttle_time_ms=0 if release else episode.throttle_time_ms,
                throttled_until_ms=episode.throttled_until_ms,
                tokens=budget.tokens(self.deployment.timeline.tick(decided_at_ms)),
                rate=state.rate.measure(self.deployment.config, decided_at_ms),
                quota=self.limit.producer_ids_rate,
                quota_source=self.limit.source,
                quota_updated_at_ms=self.limit.updated_at_ms,
                evidence=episode.evidence() if release else Evidence(),
            )
        )

    def settle(self, episode: Episode | None) -> None:
        """Give the last THROTTLE all that was refused until the next decision or the end of its batch."""
        if episode and self.decisions and self.decisions[-1].action == "THROTTLE":
            self.decisions[-1] = replace(self.decisions[-1], evidence=episode.evidence())

    def report(
        self,
        tick: int,
        state: LedgerState,
        budget: Budget,
        seen: LayeredBloomFilter,
        counts: Sequence[QuantumCounts],
        *,
        state_bytes: int,
        is_learning: bool,
    ) -> None:
        """Add the metrics row of the current interval, as of a tick; `counts` are those of the live quanta."""
        config, timeline = self.deployment.config, self.deployment.timeline
        as_of_ms = timeline.tick_start_ms(tick)
        self.metrics.append(
            MetricsRow(
                principal=self.principal,
                broker_id=self.broker_id,
                window_end_ms=timeline.tick_start_ms((state.interval.number + 1) * self.deployment.interval_ticks),
                as_of_ms=as_of_ms,
                rate=state.rate.measure(config, as_of_ms),
                tokens=budget.tokens(tick),
                throttle_time_ms=budget.throttle_time_ms(tick),
                throttle_time_avg_ms=throttle_time_avg_ms(counts),
                new_pids_window=new_pids_in_window(counts, as_of_ms, config.window_ms, timeline),
                quota=self.limit.producer_ids_rate,
                quota_source=self.limit.source,
                admitted_pids=state.interval.admitted,
                refused_pids=round(state.interval.refused.estimate()),
                late_pids=self.late_pids,
                active_pids=seen.active_pids(),
                layers=seen.layers(),
                state_bytes=state_bytes,
                phase="learning" if is_learning else "enforcing",
                saturated=any(each.saturated for each in counts),
            )
        )
        self.late_pids = 0
