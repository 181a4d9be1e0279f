"""Holds and releases by hand: writes a record, and waits until brokers obey it."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from broker.enforcement.hold_state import HoldState, has_authorizer
from broker.enforcement.hold_topic import HoldTopic, steady_ms
from broker.enforcement.model import Change
from broker.errors import BrokerUnreachableError, HoldNotWrittenError, NotHeldError
from wire.holds import EVERYBODY, MAX_HOLD_MS, Hold, Release

OBEY_S = 20.0
"""Brokers report every 10 s, and at once after a record."""
_POLL_S = 0.1


@dataclass(frozen=True)
class Obeyed:
    """The answer of the brokers: `brokers` obey, and `held` are the principals that are on hold on one of them now."""

    brokers: Sequence[int]
    held: Sequence[str]


def release(config: Mapping[str, str], principal: str, release_ms: int, by: str) -> Obeyed:
    """Release a principal, or `EVERYBODY`, and wait until brokers obey.

    Raises:
        NotHeldError: If nobody holds the principal.
        HoldNotWrittenError: If a broker does not obey in time.
    """
    with HoldTopic(config) as topic:
        _await_brokers(topic)
        held = _held(topic.state)
        if principal != EVERYBODY and principal not in held:
            now = ", ".join(held) or "nobody"
            msg = f"{principal} is not on hold. On hold: {now}"
            raise NotHeldError(msg)
        record = Release(cluster_id=topic.state.cluster_id, release_ms=release_ms, by=by)
        offset = topic.release(principal, record)
        return _await_obeyed(topic, principal, offset, lambda state: not _still_held(state, principal))


def hold(config: Mapping[str, str], principal: str, hold_ms: int, by: str) -> Obeyed:
    """Hold a principal for at most `MAX_HOLD_MS`, and wait until brokers obey.

    Raises:
        HoldNotWrittenError: If a release is in force, or a broker does not obey in time.
    """
    with HoldTopic(config) as topic:
        _await_brokers(topic)
        _require_not_released(topic.state, principal)
        record = Hold(
            cluster_id=topic.state.cluster_id,
            hold_ms=min(hold_ms, MAX_HOLD_MS),
            until_ms=time.time_ns() // 1_000_000 + hold_ms,
            reason="by hand",
            writer=by,
        )
        offset = topic.write([Change(principal, record)])
        return _await_obeyed(topic, principal, offset, lambda state: principal in _on_brokers(state, all_of_them=True))


def _await_brokers(topic: HoldTopic) -> None:
    """Wait for a report of a broker that has the plugin's authorizer."""
    give_up_at = time.monotonic() + OBEY_S
    while not any(has_authorizer(each) for each in topic.state.live(steady_ms()).values()):
        if time.monotonic() > give_up_at:
            msg = (
                f"no broker with the plugin's authorizer has reported in {OBEY_S:g} s: set authorizer.class.name "
                "(docs/enforcement.md), and look at pid-quota doctor"
            )
            raise BrokerUnreachableError(msg)
        topic.poll(_POLL_S)


def _require_not_released(state: HoldState, principal: str) -> None:
    """Raise HoldNotWrittenError if a release is in force, which brokers obey whatever holds say."""
    now_ms = state.time.now_ms(steady_ms())
    for each in (state.releases.get(name) for name in (principal, EVERYBODY)):
        if each is not None and now_ms is not None and each.ends_ms > now_ms:
            who = "everybody" if each.principal == EVERYBODY else principal
            left_s = (each.ends_ms - now_ms) // 1000
            by = each.release.by or "somebody"
            msg = f"{who} is released for {left_s} s more, by {by}: try again when that is over"
            raise HoldNotWrittenError(msg)


def _await_obeyed(topic: HoldTopic, principal: str, offset: int, is_done: Callable[[HoldState], bool]) -> Obeyed:
    give_up_at = time.monotonic() + OBEY_S
    while (late := topic.state.unconfirmed(offset, steady_ms())) or not is_done(topic.state):
        if time.monotonic() > give_up_at:
            by = f" by broker {', '.join(map(str, late))}" if late else ""
            why = _ignored(topic.state, principal) or (
                "" if late else " (brokers have limits of their own: docs/enforcement.md)"
            )
            look = ". Look whether it hangs; it obeys as soon as it goes on" if late and not why else ""
            msg = f"not obeyed within {OBEY_S:g} s{by}{why}: the record stays in the topic{look}"
            raise HoldNotWrittenError(msg)
        topic.poll(_POLL_S)
    live = topic.state.live(steady_ms())
    return Obeyed(sorted(each for each in live if has_authorizer(live[each])), _held(topic.state))


def _ignored(state: HoldState, principal: str) -> str:
    """Return why brokers ignored a record of a principal. They report it until they ignore another one."""
    found = {each.holds.ignored for each in state.live(steady_ms()).values() if each.holds and each.holds.ignored}
    said = {each for each in found if each.removeprefix("release:").startswith(f"{principal}: ")}
    return f" ({'; '.join(sorted(said))})" if said else ""


def _held(state: HoldState) -> list[str]:
    return sorted(_on_brokers(state, all_of_them=False))


def _on_brokers(state: HoldState, *, all_of_them: bool) -> set[str]:
    """Return the principals that one broker holds, or that all brokers with the plugin's authorizer hold."""
    live = state.live(steady_ms())
    each_holds = [set(state.held_by(number)) for number, broker in live.items() if has_authorizer(broker)]
    if not each_holds:
        return set()
    return set.intersection(*each_holds) if all_of_them else set.union(*each_holds)


def _still_held(state: HoldState, principal: str) -> bool:
    held = _held(state)
    return bool(held) if principal == EVERYBODY else principal in held
