"""Checks of holds: who writes them, and whether brokers obey."""

from collections.abc import Collection, Iterator

from broker.doctor.findings import Finding, ok, warning, wrong
from broker.enforcement.hold_state import HoldState, has_authorizer
from broker.enforcement.model import HeldRecord
from quota.typed import typed
from wire.holds import EVERYBODY

_OBEY_MS = 15_000
"""Brokers report every 10 s."""


def check_holds(state: HoldState, brokers: Collection[int], now_ms: int) -> Iterator[Finding]:
    """Check the holds in force, and that the running `brokers` obey them."""
    held, findings = holds_in_force(state, now_ms), list[Finding]()
    live = {name for name, each in state.writers.items() if each.is_live(now_ms)}
    if len(live) > 1:
        text = f"streams {', '.join(sorted(live))} run with --enforce, and only the first one holds"
        findings.append(wrong("holds", text, "end all but one: one pid-quota run per cluster"))
    for each in held:
        if not each.is_by_hand and each.hold.writer not in live:
            left_s = (each.ends_ms - now_ms) // 1000
            release = typed(("pid-quota", "release", each.principal))
            text = f"stream {each.hold.writer} has ended, and its hold on {each.principal} ends in {left_s} s"
            findings.append(warning("holds", text, f"pid-quota run --enforce, or {release}"))
        if late := _not_obeying(state, each, brokers, now_ms):
            named = ", ".join(map(str, late))
            text = f"broker {named} does not hold {each.principal}"
            remedy = f"pid.quota.never, pid.quota.max.holds and server.log of broker {named} (docs/enforcement.md)"
            findings.append(wrong("holds", text, remedy))
    yield from findings or [ok("holds", f"on hold: {typed(each.principal for each in held) or 'nobody'}")]


def holds_in_force(state: HoldState, now_ms: int) -> list[HeldRecord]:
    """Return the holds that have not run out, and that no release overrules."""
    released = {each.principal for each in state.releases.values() if each.ends_ms > now_ms}
    if EVERYBODY in released:
        return []
    return [each for each in state.holds.values() if each.ends_ms > now_ms and each.principal not in released]


def _not_obeying(state: HoldState, held: HeldRecord, brokers: Collection[int], now_ms: int) -> list[int]:
    if now_ms < held.ends_ms - held.hold.hold_ms + _OBEY_MS:
        return []
    able = {number for number, broker in state.brokers.items() if has_authorizer(broker)}
    return sorted(each for each in able.intersection(brokers) if held.principal not in state.held_by(each))
