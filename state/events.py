"""Input and output of a ledger."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import msgspec

from quota.config import TICKS_PER_QUANTUM, QuotaConfig
from quota.decision import Client, Decision
from quota.limits import QuotaSource
from quota.timeline import Timeline
from state.learning import Learning

CHARGED = 0
"""Event kind: an unseen PID takes a token."""
LEARNING = 1
"""Event kind: the PID may be older than the plugin's watch. If it is unseen, it takes no token."""


@dataclass(frozen=True)
class Deployment:
    """Settings that all ledgers of a stream share.

    Attributes:
        salt: Secret for `state.hashing`, 0 to 2**63 - 1.
        learn_until_ms: End of the stream's learning time, in event time. Until then, unseen PIDs below `learn_below`
            take no token.
        learn_below: The lowest PID that was not handed out yet when the learning time began; None if unknown. Then all
            unseen PIDs of the learning time take no token.
    """

    config: QuotaConfig = field(default_factory=QuotaConfig)
    salt: int = 0
    learn_until_ms: int = 0
    learn_below: int | None = None

    # Cached, because every ledger of a batch uses these.
    @cached_property
    def timeline(self) -> Timeline:
        """The timeline of `config`."""
        return Timeline(self.config.quantum_ms)

    @cached_property
    def learning(self) -> Learning:
        """The stream's learning time."""
        return Learning(self.learn_until_ms, self.learn_below)

    @cached_property
    def interval_ticks(self) -> int:
        """Length of a metrics interval in ticks."""
        return self.timeline.ticks_in(self.config.metrics_interval_seconds * 1000)

    @cached_property
    def late_grace_ms(self) -> int:
        """`late_grace_seconds` in milliseconds."""
        return round(self.config.late_grace_seconds * 1000)

    def event_time_step(self, timestamp_ms: int) -> tuple[int, int]:
        """Return the start and end of the step that contains an event time, in ms since the epoch.

        A step consists of whole ticks, and takes a minute by default. The driver rounds a partition's newest event time
        down to the start of a step. A step is short relative to `late_grace_seconds`, so an event newer than the
        rounded time is not late.
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
        """Return whether an event at `tick` is late for a ledger whose clock is at `clock_tick`."""
        clock_ms = self.timeline.tick_start_ms(max(0, clock_tick))
        return tick < self.timeline.tick(max(0, clock_ms - self.late_grace_ms))


class Events(msgspec.Struct, frozen=True):
    """Produce events of one principal in offset order, as columns of the same length.

    Attributes:
        pids: Producer ids, 0 or above.
        timestamps_ms: Broker times in milliseconds since the epoch.
        kinds: `CHARGED` or `LEARNING`.
        hashes: Result of `hash_pids`. If it is empty, the ledger computes the hashes.
    """

    pids: list[int]
    timestamps_ms: list[int]
    clients: list[Client]
    kinds: list[int]
    hashes: list[int] = msgspec.field(default_factory=list)


class Event(NamedTuple):
    """An event that is not late. `now_ms` is its time, or the ledger's clock if that is later."""

    pid: int
    pid_hash: int
    now_ms: int
    client: Client


class MetricsRow(msgspec.Struct, frozen=True, gc=False, rename={"window_end_ms": "window_end", "as_of_ms": "as_of"}):
    """A row of the table `producer_id_metrics`: the state of a principal at `as_of_ms`.

    `admitted_pids`, `refused_pids` and `owed_pids` are counts over the metrics interval that ends at `window_end_ms`.
    `owed_pids` are the refused PIDs that took a token. `rate`, `new_pids_window` and `quota` are PIDs per window.
    """

    principal: str
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
    owed_pids: int
    late_pids: int
    active_pids: int
    layers: int
    state_bytes: int
    phase: str
    saturated: bool


class Outcome(msgspec.Struct, frozen=True):
    """The result of one principal's batch. `content` has the bytes to store."""

    decisions: tuple[Decision, ...]
    metrics: tuple[MetricsRow, ...]
    content: bytes
