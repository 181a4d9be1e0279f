"""Carries out the plan: takes decisions of the stream, plans, writes holds, and notes what should be known."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from broker.enforcement.hold_state import HoldState, has_authorizer
from broker.enforcement.model import (
    ANNOUNCE_MS,
    Change,
    Limits,
    NewestDecision,
    Plan,
    PlannedDecision,
    Situation,
)
from broker.enforcement.plan import plan, unplanned
from quota.limits import Quotas
from wire.holds import WriterRecord

KEEP_MS = 86_400_000
MAX_AHEAD_MS = 366 * 86_400_000
CONFIRM_MS = 5_000
"""Brokers obey a hold within this time. Otherwise it counts as not confirmed."""


class HoldPort(Protocol):
    """The topic of holds, as the enforcer uses it: see `HoldTopic`."""

    state: HoldState

    def poll(self, wait_s: float = 0) -> None:
        """Take new records."""

    def write(self, changes: Iterable[Change]) -> int:
        """Write records. Return the offset of the last record. Raises HoldNotWrittenError."""

    def announce(self, record: WriterRecord) -> int:
        """Write that a stream is alive. Return the record's offset. Raises HoldNotWrittenError."""


@dataclass(frozen=True)
class Note:
    """Something that people should know, once: a row of the table `holds`, and a line of the stream's output.

    Attributes:
        state: `would_hold`, `left_out`, `held`, `ended` or `alert`.
    """

    at_ms: int
    state: str
    principal: str
    reason: str = ""
    decision_id: str = ""
    until_ms: int | None = None
    init_every_ms: int | None = None


@dataclass(frozen=True)
class Standing:
    """What holds are like after a step, for metrics. `planned_s` is the Unix time of the step."""

    held: int = 0
    would_hold: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    confirmations_missing: int = 0
    held_requests: int = 0
    let_in: int = 0
    has_other_writer: bool = False
    is_enforcing: bool = False
    planned_s: float = 0.0


class Decisions:
    """The newest decision of each principal, and whose decisions do not count. Not thread-safe."""

    def __init__(self) -> None:
        self.newest: dict[str, NewestDecision] = {}
        self.unsteady: dict[str, str] = {}

    def see(self, decisions: Iterable[NewestDecision], now_ms: int | None, *, is_committed_now: bool) -> None:
        """Take decisions. The one with the greatest `decided_at_ms` counts, whatever the order."""
        for decision in decisions:
            known = self.newest.get(decision.principal)
            if known is None or _order(known) <= _order(decision):
                dated = decision
                if is_committed_now and now_ms is not None:
                    dated = replace(decision, delay_ms=max(0, now_ms - decision.decided_at_ms))
                self.newest[decision.principal] = dated if known is None else _continued(known, dated)

    def copy(self) -> "Decisions":
        """Return a copy, for another thread."""
        made = Decisions()
        made.newest, made.unsteady = dict(self.newest), dict(self.unsteady)
        return made

    def see_ledger(self, principal: str, *, is_saturated: bool, is_learning: bool) -> None:
        """Take what a principal's newest metrics row says of the ledger."""
        self.unsteady.pop(principal, None)
        if is_saturated:
            self.unsteady[principal] = "its ledger is saturated (docs/limits.md)"
        elif is_learning:
            self.unsteady[principal] = "the stream learns which of its producer ids are old"

    def forget_over(self, now_ms: int) -> None:
        """Forget decisions that ended long ago. An older row may still come, and must not count then."""
        over = [each for each in self.newest.values() if each.throttled_until_ms + KEEP_MS <= now_ms]
        for each in over:
            del self.newest[each.principal]
            self.unsteady.pop(each.principal, None)


def _order(decision: NewestDecision) -> tuple[int, bool]:
    """Return a key by which the newest decision is the greatest. A RELEASE comes after the THROTTLE that it ends."""
    return decision.decided_at_ms, not decision.is_throttle


def _continued(known: NewestDecision, decision: NewestDecision) -> NewestDecision:
    """Return a decision with what it has from the one before: its throttle's begin, and its delay if it is the same."""
    is_renewal = known.is_throttle and decision.decided_at_ms <= known.throttled_until_ms
    since_ms = min(known.since_ms, decision.since_ms) if is_renewal else decision.since_ms
    is_same = known.decision_id == decision.decision_id
    return replace(
        decision, since_ms=since_ms, delay_ms=min(known.delay_ms, decision.delay_ms) if is_same else decision.delay_ms
    )


class Enforcer:
    """One step after the other; see `step`."""

    def __init__(
        self, limits: Limits, window_ms: int, writer: str, note: Callable[[Note], None], *, start_ms: int
    ) -> None:
        self._limits, self._window_ms, self._writer, self._note = limits, window_ms, writer, note
        self._start_ms = start_ms
        self._epoch = 0
        self._noted: dict[str, tuple[str, str, str]] = {}
        self._written_ms: dict[str, int] = {}
        self._others: set[str] = set()
        self._yields_to = ""
        self._announced_ms: int | None = None
        self.standing = Standing()

    def step(self, topic: HoldPort, decisions: Decisions, quotas: Quotas, steady_ms: int) -> Plan:
        """Read the topics, plan, and write the difference.

        Raises:
            HoldNotWrittenError: If brokers did not take a record.
            BrokerUnreachableError: If a topic can't be read.
        """
        topic.poll()
        self._epoch = self._epoch or _next_epoch(topic.state, self._writer, self._start_ms)
        if self._limits.enforce:
            self._announce(topic, steady_ms)
        now_ms = topic.state.time.now_ms(steady_ms)
        if now_ms is None:
            made = unplanned(decisions.newest, "the brokers' time is unknown, or it went back")
        else:
            made = plan(self._situation(topic.state, decisions, quotas, now_ms, steady_ms))
        if made.changes:
            topic.write(made.changes)
        self._written_ms |= {each.principal: steady_ms for each in made.changes}
        self._say(made, now_ms)
        self._measure(topic.state, made, steady_ms)
        return made

    def leave(self, topic: HoldPort) -> None:
        """Say that this stream ends, so that another may take its holds at once.

        Raises:
            HoldNotWrittenError: If brokers did not take the record.
        """
        known = topic.state.writers.get(self._writer)
        if self._announced_ms is not None and known is not None and known.epoch == self._epoch:
            topic.announce(WriterRecord(self._writer, self._epoch, known.since, is_gone=True))

    def _announce(self, topic: HoldPort, steady_ms: int) -> None:
        """Say once a minute that this stream is alive. Once it has read that, it knows whether it was the first."""
        now_ms = topic.state.time.now_ms(steady_ms)
        known = topic.state.writers.get(self._writer)
        if now_ms is None or (known is not None and known.is_live(now_ms) and known.epoch > self._epoch):
            # Another process of this stream has taken over.
            return
        if known is None or self._announced_ms is None or steady_ms - self._announced_ms >= ANNOUNCE_MS:
            topic.announce(topic.state.announcement(self._writer, self._epoch, now_ms))
            self._announced_ms = steady_ms

    def _situation(
        self, state: HoldState, decisions: Decisions, quotas: Quotas, now_ms: int, steady_ms: int
    ) -> Situation:
        live = state.live(steady_ms)
        return Situation(
            now_ms=now_ms,
            decisions=dict(decisions.newest),
            quotas=quotas,
            window_ms=self._window_ms,
            holds=dict(state.holds),
            releases=dict(state.releases),
            limits=self._limits,
            cluster_id=state.cluster_id,
            writer=self._writer,
            writer_epoch=self._epoch,
            brokers=len(live),
            has_authorizer=any(has_authorizer(each) for each in live.values()),
            unsteady=dict(decisions.unsteady),
            writers=dict(state.writers),
        )

    def _say(self, made: Plan, now_ms: int | None) -> None:
        """Note what is new: a plan that says the same again notes nothing."""
        at_ms = now_ms or 0
        present: dict[str, tuple[str, str, str]] = {}
        for verdict in made.verdicts:
            principal = verdict.decision.principal
            # A renewal has another id. It is news only for a decision that holds nobody.
            decision_id = "" if verdict.outcome == "held" else verdict.decision.decision_id
            present[principal] = (verdict.outcome, verdict.reason, decision_id)
            if self._noted.get(principal) != present[principal]:
                self._note(_note_of(verdict, at_ms))
        for principal in self._noted.keys() - present.keys():
            if self._noted[principal][0] == "held":
                self._note(Note(at_ms, "ended", principal))
        self._noted = present
        if made.yields_to != self._yields_to:
            self._note(Note(at_ms, "alert", "", _turn_of(self._yields_to, made.yields_to)))
        elif not made.yields_to:
            for other in {*made.other_writers} - self._others:
                text = f"another live stream ({other}) writes holds: end one of the two"
                self._note(Note(at_ms, "alert", "", text))
        self._others, self._yields_to = {*made.other_writers}, made.yields_to

    def _measure(self, state: HoldState, made: Plan, steady_ms: int) -> None:
        live = state.live(steady_ms)
        held = [each.decision.principal for each in made.verdicts if each.outcome == "held"]
        able = [each for each, broker in live.items() if has_authorizer(broker)]
        due = [each for each in held if steady_ms - self._written_ms.get(each, 0) > CONFIRM_MS]
        on_brokers = [each for broker_id in live for each in state.held_by(broker_id).values()]
        left_out: dict[str, int] = {}
        for each in made.verdicts:
            if each.reason:
                # What differs from case to case follows the colon, and is no label.
                kind = each.reason.partition(":")[0]
                left_out[kind] = left_out.get(kind, 0) + 1
        self.standing = Standing(
            held=len(held),
            would_hold=sum(each.outcome == "would_hold" for each in made.verdicts),
            left_out=left_out,
            confirmations_missing=sum(len(able) - len(state.confirming(each, steady_ms)) for each in due),
            held_requests=sum(each.held_requests for each in on_brokers),
            let_in=sum(each.let_in for each in on_brokers),
            has_other_writer=bool(made.other_writers),
            is_enforcing=self._limits.enforce,
        )


def _turn_of(before: str, first: str) -> str:
    if not first:
        return f"stream {before} has ended: this one takes the holds"
    return f"another stream ({first}) was first on this cluster: this one takes no holds while that one is alive"


def _next_epoch(state: HoldState, writer: str, start_ms: int) -> int:
    """Return the epoch of a start. It grows with each start, even if the clock of a host goes back."""
    epochs = [each.hold.writer_epoch or 0 for each in state.holds.values() if each.hold.writer == writer]
    if writer in state.writers:
        epochs.append(state.writers[writer].epoch)
    # An epoch far ahead is somebody's mistake. To go beyond it would end where brokers accept no greater number.
    return max(start_ms, 1 + max((each for each in epochs if each < start_ms + MAX_AHEAD_MS), default=0))


def _note_of(verdict: PlannedDecision, at_ms: int) -> Note:
    decision = verdict.decision
    return Note(
        at_ms,
        verdict.outcome,
        decision.principal,
        verdict.reason,
        decision.decision_id,
        verdict.ends_ms,
        verdict.init_every_ms,
    )
