"""Values of enforcement. All times are ms since the epoch, by the brokers' clocks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from quota.limits import Quotas
from wire.holds import EVERYBODY, Hold, Release

ANNOUNCE_MS = 60_000
"""A stream that may write holds says this often that it is alive."""
WRITER_MS = 150_000
"""A stream that said nothing for this long is dead."""


@dataclass(frozen=True)
class NewestDecision:
    """The newest row of `throttle_decisions` of a principal.

    Attributes:
        since_ms: when the principal's throttle began, through all renewals.
        delay_ms: how old the decision was when its batch was committed; 0 if unknown.
    """

    decision_id: str
    principal: str
    decided_at_ms: int
    throttled_until_ms: int
    since_ms: int
    tokens: float | None = None
    quota: float | None = None
    refused_pids: int = 0
    delay_ms: int = 0
    is_throttle: bool = True


@dataclass(frozen=True)
class HeldRecord:
    """The newest hold in the topic for a principal, and when it runs out if nobody extends it."""

    principal: str
    hold: Hold
    ends_ms: int

    @property
    def is_by_hand(self) -> bool:
        """Whether a person wrote the record."""
        return self.hold.writer_epoch is None

    def is_fresh(self, now_ms: int) -> bool:
        """Whether at least half of the hold is left, so that a living writer need not have extended it."""
        return 2 * (self.ends_ms - now_ms) >= self.hold.hold_ms


@dataclass(frozen=True)
class Writer:
    """What the newest record of a stream that may write holds says.

    Attributes:
        since: offset of the first record of the time in which the stream was alive without a gap.
        heard_ms: when the newest record came.
        is_gone: whether the stream has said that it ends.
    """

    epoch: int
    since: int
    heard_ms: int
    is_gone: bool = False

    def is_live(self, now_ms: int) -> bool:
        """Whether the stream is alive: it says so once a minute."""
        return not self.is_gone and now_ms - self.heard_ms <= WRITER_MS


@dataclass(frozen=True)
class ReleaseRecord:
    """The newest release in the topic for a principal or for everybody, and when it runs out."""

    principal: str
    release: Release
    ends_ms: int


@dataclass(frozen=True)
class Limits:
    """The operator's options of a stream.

    Attributes:
        enforce: whether holds are written. If not, the plan only says who would be held.
        never: principals that are never held, such as `User:etl`.
        max_held: maximum number of principals that the stream holds at once.
    """

    enforce: bool = False
    never: frozenset[str] = frozenset()
    max_held: int = 10


@dataclass(frozen=True)
class Situation:
    """All that a plan depends on.

    Attributes:
        now_ms: the brokers' time.
        decisions: the newest decision of each principal, by principal.
        unsteady: why a principal's decisions do not count, by principal: its ledger is saturated, or learns.
        holds, releases: the newest records of the topic, by principal.
        brokers: number of live brokers.
        has_authorizer: whether a live broker has the plugin's authorizer.
        writer, writer_epoch: this stream, in the records that it writes.
        writers: what streams say of themselves, by id.
    """

    now_ms: int
    decisions: Mapping[str, NewestDecision]
    quotas: Quotas
    window_ms: int
    holds: Mapping[str, HeldRecord]
    releases: Mapping[str, ReleaseRecord]
    limits: Limits
    cluster_id: str
    writer: str
    writer_epoch: int
    brokers: int = 1
    has_authorizer: bool = True
    unsteady: Mapping[str, str] = field(default_factory=dict)
    writers: Mapping[str, Writer] = field(default_factory=dict)

    def is_released(self, principal: str) -> bool:
        """Whether a release of the principal, or of everybody, is in force."""
        found = (self.releases.get(each) for each in (principal, EVERYBODY))
        return any(each and each.ends_ms > self.now_ms for each in found)


@dataclass(frozen=True)
class Change:
    """A record to write. Without a `hold`, the record ends the principal's hold."""

    principal: str
    hold: Hold | None


Outcome = Literal["held", "would_hold", "left_out"]


@dataclass(frozen=True)
class PlannedDecision:
    """What the plan says of a decision in force.

    Attributes:
        ends_ms: when the decision ends under the quota in force.
        init_every_ms: the pace of the hold; None if the decision is left out.
        reason: why the decision is left out; otherwise empty.
    """

    decision: NewestDecision
    outcome: Outcome
    ends_ms: int
    reason: str = ""
    init_every_ms: int | None = None


@dataclass(frozen=True)
class Plan:
    """The records to write, and what becomes of each decision in force.

    Attributes:
        other_writers: ids of other live streams that write holds.
        yields_to: the live stream that was first on the cluster, if this one was not: this one writes nothing.
    """

    changes: tuple[Change, ...] = ()
    verdicts: tuple[PlannedDecision, ...] = ()
    other_writers: tuple[str, ...] = ()
    yields_to: str = ""
