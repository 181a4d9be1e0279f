"""Builds situations of the enforcement's plan."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from broker.enforcement.model import HeldRecord, Limits, NewestDecision, Plan, ReleaseRecord, Situation
from quota.limits import Limit, Quotas
from wire.holds import Hold, Release

NOW_MS = 1_800_000_000_000
WINDOW_MS = 3_600_000
MINUTE_MS = 60_000
RATE = 100.0
MALLORY, ALICE = "User:mallory", "User:alice"
CLUSTER, STREAM = "cluster-1", "stream-1"
EPOCH = 7
PACE_MS = 36_000
"""Pace of a quota of `RATE` on one broker."""


def decision(principal: str = MALLORY, *, minutes: float = 60, begun: float = 0, **more: Any) -> NewestDecision:
    """Return a THROTTLE that was decided `begun` minutes ago, and ends in `minutes`."""
    decided_ms = NOW_MS - round(begun * MINUTE_MS)
    made = NewestDecision(
        f"decision-{principal}",
        principal,
        decided_ms,
        NOW_MS + round(minutes * MINUTE_MS),
        decided_ms,
        tokens=-RATE,
        quota=RATE,
    )
    return replace(made, **more)


def released(principal: str = MALLORY, *, begun: float = 0) -> NewestDecision:
    """Return a RELEASE, `begun` minutes ago."""
    at_ms = NOW_MS - round(begun * MINUTE_MS)
    return NewestDecision("release", principal, at_ms, at_ms, at_ms, is_throttle=False)


def hold(*, minutes: float = 10, **more: Any) -> Hold:
    """Return a hold of this stream for `minutes`."""
    made = Hold(
        cluster_id=CLUSTER,
        hold_ms=round(minutes * MINUTE_MS),
        until_ms=NOW_MS + WINDOW_MS,
        init_every_ms=PACE_MS,
        decision_id=f"decision-{MALLORY}",
        reason="over its quota of new producer ids",
        writer=STREAM,
        writer_epoch=EPOCH,
    )
    return Hold(**{name: getattr(made, name) for name in made.__struct_fields__} | more)


def record(principal: str = MALLORY, *, minutes: float = 10, left: float = 10, **more: Any) -> HeldRecord:
    """Return a record in the topic, of which `left` minutes are left."""
    return HeldRecord(principal, hold(minutes=minutes, **more), NOW_MS + round(left * MINUTE_MS))


def release(principal: str = MALLORY, *, left: float = 30) -> ReleaseRecord:
    """Return a release that runs out in `left` minutes."""
    content = Release(cluster_id=CLUSTER, release_ms=3_600_000, by="carol")
    return ReleaseRecord(principal, content, NOW_MS + round(left * MINUTE_MS))


def quotas(**rates: float) -> Quotas:
    """Return quotas by user name."""
    return Quotas({name: Limit(rate, "user") for name, rate in rates.items()})


def situation(
    *decisions: NewestDecision,
    holds: Iterable[HeldRecord] = (),
    releases: Iterable[ReleaseRecord] = (),
    **more: Any,
) -> Situation:
    """Return a situation in which everybody has a quota of `RATE`, and the stream enforces."""
    made = Situation(
        now_ms=NOW_MS,
        decisions={each.principal: each for each in decisions},
        quotas=Quotas({}, Limit(RATE, "default")),
        window_ms=WINDOW_MS,
        holds={each.principal: each for each in holds},
        releases={each.principal: each for each in releases},
        limits=Limits(enforce=True),
        cluster_id=CLUSTER,
        writer=STREAM,
        writer_epoch=EPOCH,
    )
    return replace(made, **more)


def after(before: Situation, made: Plan) -> Situation:
    """Return the situation after the plan's changes were written."""
    holds = dict(before.holds)
    for change in made.changes:
        if change.hold is None:
            del holds[change.principal]
        else:
            ends_ms = before.now_ms + change.hold.hold_ms
            holds[change.principal] = HeldRecord(change.principal, change.hold, ends_ms)
    return replace(before, holds=holds)
