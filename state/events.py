"""Input and output of a ledger, as plain values."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import msgspec

from quota.config import TICKS_PER_QUANTUM, QuotaConfig
from quota.decision import Client, Decision
from quota.limits import QuotaSource
from quota.timeline import Timeline

Scope = Literal["cluster", "broker"]
"""Whether a principal has one budget for the cluster, or one per broker (the KIP's way)."""


CHARGED = 0
"""An unseen PID takes a token."""
CORRECTION = 1
"""A late attribution by the tap: the PID is added without charge."""
LEARNING = 2
"""The tap has watched the broker for less than a window, so the PID may be old: it is added without charge."""


def not_held_at(asked_at_ms: int) -> int:
    """Return the kind of an event whose PID no broker held when the tap asked.

    Such a PID is charged even during a learning time, if the learning time began before the tap asked.

    Args:
        asked_at_ms: When the tap asked the brokers, in milliseconds since the epoch; at least 3,000, so that the kind
            differs from the constants above.
    """
    return asked_at_ms // 1000


@dataclass(frozen=True)
class Deployment:
    """Settings that all ledgers of a stream share.

    Attributes:
        config: The settings of the rules.
        salt: Secret that PIDs are hashed with (`state.hashing`), 0 to 2**63 - 1.
        learn_until_ms: End of the learning time, in event time. Until then, unseen PIDs are stored without charge: they
            may be old.
        learn_from_ms: Start of the learning time. If a tap asked after this time and no broker held a PID, the PID is
            charged.
    """

    config: QuotaConfig = field(default_factory=QuotaConfig)
    salt: int = 0
    learn_until_ms: int = 0
    scope: Scope = "cluster"
    learn_from_ms: int = 0

    # Cached: every ledger of a batch uses these.
    @cached_property
    def timeline(self) -> Timeline:
        """The timeline of the configuration."""
        return Timeline.of(self.config)

    @cached_property
    def interval_ticks(self) -> int:
        """Length of a metrics interval in ticks."""
        return self.timeline.ticks_in(self.config.metrics_interval_seconds * 1000)

    @cached_property
    def late_grace_ms(self) -> int:
        """Maximum time that a charged event may be older than the ledger's clock, in milliseconds."""
        return round(self.config.late_grace_seconds * 1000)

    def event_time_step(self, timestamp_ms: int) -> tuple[int, int]:
        """Return the start and the end of the step that an event time is in, in milliseconds since the epoch.

        The driver rounds a partition's newest event time down to a step, a minute by default. A step is a small part of
        the late grace, so no event newer than the rounded time is late. A step consists of whole ticks, because repeats
        within a tick are dropped.
        """
        tick = self.timeline.tick(timestamp_ms)
        first = tick - tick % self._step_ticks
        return self.timeline.tick_start_ms(first), self.timeline.tick_start_ms(first + self._step_ticks)

    @cached_property
    def _step_ticks(self) -> int:
        most = max(1, self.late_grace_ms * TICKS_PER_QUANTUM // (5 * self.config.quantum_ms))
        return max(
            ticks for ticks in range(1, TICKS_PER_QUANTUM + 1) if TICKS_PER_QUANTUM % ticks == 0 and ticks <= most
        )

    def is_late(self, tick: int, clock_tick: int) -> bool:
        """Return whether an event of a tick is older than a ledger's clock by more than the grace."""
        clock_ms = self.timeline.tick_start_ms(max(0, clock_tick))
        return tick < self.timeline.tick(max(0, clock_ms - self.late_grace_ms))


class Events(msgspec.Struct, frozen=True):
    """Produce events of one principal in offset order, as columns of the same length.

    Attributes:
        pids: Producer ids, 0 or above.
        timestamps_ms: Broker times in milliseconds since the epoch.
        kinds: How each event is counted: `CHARGED`, `CORRECTION`, `LEARNING` or a result of `not_held_at`.
        broker_ids: Brokers that the events come from; empty in scope `cluster`.
        hashes: Hashes of the PIDs by `state.hashing.hash_pids`; empty if the ledger shall compute them.
    """

    pids: list[int]
    timestamps_ms: list[int]
    clients: list[Client]
    kinds: list[int]
    broker_ids: list[int] = msgspec.field(default_factory=list)
    hashes: list[int] = msgspec.field(default_factory=list)


class Unsettled(NamedTuple):
    """An event whose PID the current quantum does not hold. An earlier quantum may hold it.

    `now_ms` is the event's time, or the ledger's clock if that is later.
    """

    pid: int
    pid_hash: int
    now_ms: int
    client: Client
    kind: int


class MetricsRow(msgspec.Struct, frozen=True, gc=False, rename={"window_end_ms": "window_end", "as_of_ms": "as_of"}):
    """The state of a principal at `as_of_ms`.

    `admitted_pids` and `refused_pids` count the metrics interval that ends at `window_end_ms`. `rate`,
    `new_pids_window` and `quota` are PIDs per window. The encoded struct has the columns of `producer_id_metrics`. (A
    struct takes a third of the time of a dataclass and a dict.)
    """

    principal: str
    broker_id: int | None
    window_end_ms: int
    as_of_ms: int
    rate: float
    tokens: float | None
    throttle_time_ms: int
    throttle_time_avg_ms: float | None
    new_pids_window: int
    quota: float | None
    burst: float | None
    quota_source: QuotaSource
    admitted_pids: int
    refused_pids: int
    late_pids: int
    active_pids: int
    layers: int
    state_bytes: int
    phase: str
    saturated: bool


class Outcome(msgspec.Struct, frozen=True):
    """The result of a batch of one principal.

    Attributes:
        decisions: The decisions, in the order they were taken.
        metrics: One row per metrics interval with changes.
        content: The ledger's bytes to store.
    """

    decisions: tuple[Decision, ...]
    metrics: tuple[MetricsRow, ...]
    content: bytes
