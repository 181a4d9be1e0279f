"""Decides who is on hold. The plan is a pure function of the situation, and a second plan changes nothing."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from broker.enforcement.model import (
    Change,
    HeldRecord,
    NewestDecision,
    Outcome,
    Plan,
    PlannedDecision,
    Situation,
    Writer,
)
from quota.principals import NEVER_ENFORCED
from wire.holds import MAX_HOLD_MS, Hold

MAX_DELAY_MS = 60_000
"""A decision that was older than this at its commit comes from a stream that lags."""
_SLACK_MS = 1_000
"""A hold that ends up to this long after its decision is not shortened."""


def plan(situation: Situation) -> Plan:
    """Compare the decisions in force with the holds in the topic."""
    live = _live_writers(situation)
    holding = {each.hold.writer for each in situation.holds.values() if _is_of_other_stream(each, situation)}
    others = sorted(holding | live.keys() - {situation.writer})
    if _is_superseded(situation):
        reason = "another process of this stream has taken over"
        return replace(unplanned(situation.decisions, reason), other_writers=(situation.writer,))
    first = min(live, key=lambda each: _place(each, live[each]), default=situation.writer)
    if situation.limits.enforce and first != situation.writer:
        reason = f"another stream was first on this cluster: {first}"
        return replace(unplanned(situation.decisions, reason), other_writers=tuple(others), yields_to=first)
    verdicts = tuple(_verdicts(situation))
    wanted = {each.decision.principal: each for each in verdicts if each.outcome == "held"}
    changes = (*_holds(wanted.values(), situation), *_ends(wanted.keys(), situation))
    return Plan(changes, verdicts, tuple(others))


def unplanned(decisions: Mapping[str, NewestDecision], reason: str) -> Plan:
    """Return the plan that leaves all decisions out for one reason."""
    ordered = sorted(decisions.values(), key=lambda each: each.principal)
    throttles = (each for each in ordered if each.is_throttle)
    return Plan(
        verdicts=tuple(PlannedDecision(each, "left_out", each.throttled_until_ms, reason) for each in throttles)
    )


def end_of(decision: NewestDecision, situation: Situation) -> int:
    """Return when a decision ends under the quota in force. Only a raised or removed quota ends it earlier.

    A stream writes such a change with its next batch. There is no batch while nobody produces.
    """
    rate = situation.quotas.find(decision.principal).producer_ids_rate
    if rate is None:
        return decision.decided_at_ms
    if decision.quota is None or decision.tokens is None or rate <= decision.quota:
        return decision.throttled_until_ms
    recovers_ms = decision.decided_at_ms + round(max(0.0, -decision.tokens) / rate * situation.window_ms)
    return min(decision.throttled_until_ms, recovers_ms)


def _verdicts(situation: Situation) -> Iterator[PlannedDecision]:
    left = situation.limits.max_held
    # Whoever is held keeps the place. The longest throttled of the others come next.
    for decision in sorted(
        (each for each in situation.decisions.values() if _is_in_force(each, situation)),
        key=lambda each: (_own(each.principal, situation) is None, each.since_ms, each.principal),
    ):
        ends_ms = end_of(decision, situation)
        reason = _reason(decision, situation)
        if not reason and not left:
            reason = f"all places are taken: {situation.limits.max_held} (--max-held)"
        if reason:
            yield PlannedDecision(decision, "left_out", ends_ms, reason)
        else:
            left -= 1
            outcome: Outcome = "held" if situation.limits.enforce else "would_hold"
            yield PlannedDecision(decision, outcome, ends_ms, init_every_ms=_pace_ms(decision, situation))


def _pace_ms(decision: NewestDecision, situation: Situation) -> int | None:
    """Return the time per request that each broker lets through: the quota's pace, divided by the brokers."""
    rate = situation.quotas.find(decision.principal).producer_ids_rate
    return max(1, round(situation.window_ms * max(1, situation.brokers) / rate)) if rate else None


def _is_in_force(decision: NewestDecision, situation: Situation) -> bool:
    return decision.is_throttle and end_of(decision, situation) > situation.now_ms


def _reason(decision: NewestDecision, situation: Situation) -> str:
    """Return why a decision holds nobody, or an empty text."""
    principal = decision.principal
    known = situation.holds.get(principal)
    if principal in NEVER_ENFORCED or not principal.startswith("User:") or principal == "User:*":
        return "it is not a user that logs in"
    if principal in situation.limits.never:
        return "it is never held (--never, or the stream's own user)"
    if situation.is_released(principal):
        return "a release is in force"
    if principal in situation.unsteady:
        return situation.unsteady[principal]
    if known and known.is_by_hand and known.ends_ms > situation.now_ms:
        return f"somebody holds it by hand: {known.hold.writer}"
    if known and _is_of_other_stream(known, situation):
        return f"another stream holds it: {known.hold.writer}"
    if _own(principal, situation) is None and decision.delay_ms > MAX_DELAY_MS:
        return f"the stream lagged: by {decision.delay_ms // 1000} s (limit {MAX_DELAY_MS // 1000} s)"
    if not situation.has_authorizer:
        return "no broker has the plugin's authorizer"
    return ""


def _holds(verdicts: Iterable[PlannedDecision], situation: Situation) -> Iterator[Change]:
    for verdict in verdicts:
        principal, hold = verdict.decision.principal, _hold(verdict, situation)
        known = _own(principal, situation)
        if known is None or _is_due(known, verdict.ends_ms, hold, situation.now_ms):
            yield Change(principal, hold)


def _hold(verdict: PlannedDecision, situation: Situation) -> Hold:
    return Hold(
        cluster_id=situation.cluster_id,
        hold_ms=min(MAX_HOLD_MS, verdict.ends_ms - situation.now_ms),
        until_ms=verdict.ends_ms,
        init_every_ms=verdict.init_every_ms,
        decision_id=verdict.decision.decision_id,
        reason="over its quota of new producer ids",
        writer=situation.writer,
        writer_epoch=situation.writer_epoch,
    )


def _is_due(known: HeldRecord, decision_ends_ms: int, hold: Hold, now_ms: int) -> bool:
    """Return whether a hold must be written again as `hold`."""
    is_longer_than_decision = known.ends_ms > decision_ends_ms + _SLACK_MS
    must_last_longer = not known.is_fresh(now_ms) and decision_ends_ms > known.ends_ms
    is_of_other_start = (known.hold.writer, known.hold.writer_epoch) != (hold.writer, hold.writer_epoch)
    has_other_pace = known.hold.init_every_ms != hold.init_every_ms
    return is_longer_than_decision or must_last_longer or is_of_other_start or has_other_pace


def _ends(wanted: Iterable[str], situation: Situation) -> Iterator[Change]:
    """Yield a change for each hold of this stream that no decision asks for any more."""
    for principal in sorted(situation.holds.keys() - set(wanted)):
        known = situation.holds[principal]
        if known.hold.writer == situation.writer and not known.is_by_hand and known.ends_ms > situation.now_ms:
            decision = situation.decisions.get(principal)
            if situation.is_released(principal) and decision and _is_in_force(decision, situation):
                # Brokers ignore the hold until the release runs out. It then counts again.
                continue
            yield Change(principal, None)


def _own(principal: str, situation: Situation) -> HeldRecord | None:
    """Return a hold that this stream wrote, or that it adopts from a stream that is dead."""
    known = situation.holds.get(principal)
    if known is None or known.is_by_hand or known.ends_ms <= situation.now_ms or _is_of_other_stream(known, situation):
        return None
    return known


def _is_of_other_stream(known: HeldRecord, situation: Situation) -> bool:
    """Return whether another stream wrote a hold, and may be alive: it would have extended the hold by now.

    A stream that is known as a writer is dead, or yields to this one.
    """
    if known.is_by_hand or known.hold.writer == situation.writer:
        return False
    if situation.limits.enforce and known.hold.writer in situation.writers:
        return False
    return known.ends_ms > situation.now_ms and known.is_fresh(situation.now_ms)


def _live_writers(situation: Situation) -> Mapping[str, Writer]:
    """Return the live streams that may write holds. This one is alive."""
    own, now_ms = situation.writer, situation.now_ms
    return {each: writer for each, writer in situation.writers.items() if each == own or writer.is_live(now_ms)}


def _place(name: str, writer: Writer) -> tuple[int, str]:
    """Return a key by which the first stream is the least, for all streams alike: the topic has one order."""
    return writer.since, name


def _is_superseded(situation: Situation) -> bool:
    own = situation.writers.get(situation.writer)
    if own and own.is_live(situation.now_ms) and own.epoch > situation.writer_epoch:
        return True
    return any(
        (each.hold.writer_epoch or 0) > situation.writer_epoch
        for each in situation.holds.values()
        if each.hold.writer == situation.writer and each.ends_ms > situation.now_ms
    )
