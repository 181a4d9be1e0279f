"""Walks of the enforcer and its topic against a small oracle of who has to be on hold on a broker."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
import numpy as np
import pytest

from broker.enforcement.enforcer import Decisions, Enforcer
from broker.enforcement.model import Limits, NewestDecision
from broker.errors import HoldNotWrittenError
from quota.limits import Limit, Quotas
from tests.kits.hold_topic_kit import CLUSTER, MemoryTopic
from wire.holds import EVERYBODY, MAX_HOLD_MS, Hold, Release, hold_key, parse_hold_record, release_key

_Option = TypeVar("_Option")
WALKS = 200
STEPS = 60
BEGIN_MS = 1_800_000_000_000
WINDOW_MS = 3_600_000
USERS = [f"User:u{number}" for number in range(5)]
NEVER = USERS[4]
RATE = 100.0
LONGEST_STEP_MS = 90_000


@dataclass
class Broker:
    """A broker that obeys the topic as its page says, by its monotonic clock."""

    ends: dict[str, int] = field(default_factory=dict)
    releases: dict[str, int] = field(default_factory=dict)
    read: int = 0

    def obey(self, topic: MemoryTopic) -> None:
        for record in topic.records[self.read :]:
            found = parse_hold_record(record.key, record.value)
            if found is None:
                # A stream says that it is alive.
                assert record.value is None
                continue
            kept, length_ms = (self.releases if found.is_release else self.ends), 0
            if isinstance(found.content, Release):
                length_ms = found.content.release_ms
            elif isinstance(found.content, Hold):
                length_ms = found.content.hold_ms
                assert length_ms <= MAX_HOLD_MS
            kept[found.principal] = topic.steady_ms + length_ms
        self.read = len(topic.records)

    def held(self, steady_ms: int) -> set[str]:
        released = {principal for principal, end_ms in self.releases.items() if end_ms > steady_ms}
        if EVERYBODY in released:
            return set()
        return {each for each, end_ms in self.ends.items() if end_ms > steady_ms} - released


@dataclass
class Oracle:
    """Who has to be on hold, from what happened. Times are of the monotonic clock."""

    throttled: dict[str, int] = field(default_factory=dict)
    by_hand: dict[str, int] = field(default_factory=dict)
    releases: dict[str, int] = field(default_factory=dict)
    without_quota: set[str] = field(default_factory=set)

    def held(self, now_ms: int) -> set[str]:
        """All who are over their quota or held by a person, except those that are released."""
        throttled = {each for each, end_ms in self.throttled.items() if end_ms > now_ms} - self.without_quota - {NEVER}
        by_hand = {each for each, end_ms in self.by_hand.items() if end_ms > now_ms}
        return self.unreleased(throttled | by_hand, now_ms)

    def unreleased(self, principals: set[str], now_ms: int) -> set[str]:
        released = {each for each, end_ms in self.releases.items() if end_ms > now_ms}
        return set() if EVERYBODY in released else principals - released


class Walk:
    """A stream, its topic and a broker, to which things happen at random."""

    def __init__(self, seed: int) -> None:
        self._chance = np.random.default_rng(seed)
        self.topic, self.broker, self.oracle = MemoryTopic(BEGIN_MS), Broker(), Oracle()
        self.decisions = Decisions()
        self.starts = 0
        self.is_dead = False
        self.dead_since_ms = 0
        self.restart()

    def pick(self, options: Sequence[_Option]) -> _Option:
        return options[int(self._chance.integers(len(options)))]

    def restart(self) -> None:
        self.starts += 1
        limits = Limits(enforce=True, never=frozenset({NEVER}), max_held=len(USERS))
        self.enforcer = Enforcer(limits, WINDOW_MS, "stream-1", lambda _: None, start_ms=self.starts)

    def happen(self) -> None:
        """Let something happen, and time pass. Then the stream and the broker do what they have to."""
        user = self.pick(USERS)
        happening = self.pick(
            [self.throttle, self.throttle, self.end, self.change_quota, self.release, self.hold, self.crash, self.fail]
        )
        happening(user)
        self.topic.pass_ms(self.pick([1_000, 5_000, LONGEST_STEP_MS]))
        self.topic.alive()
        self.step()
        self.broker.obey(self.topic)

    def step(self) -> None:
        limits = {each.removeprefix("User:"): Limit(None, "user") for each in self.oracle.without_quota}
        quotas = Quotas(limits, Limit(RATE, "default"))
        if self.is_dead:
            self.topic.poll()
            return
        try:
            self.enforcer.step(self.topic, self.decisions, quotas, self.topic.steady_ms)
        except HoldNotWrittenError:
            assert self.topic.is_down

    def commit(self, user: str, lasts_ms: int, *, is_throttle: bool) -> None:
        now_ms = self.topic.state.time.now_ms(self.topic.steady_ms) or BEGIN_MS
        ends_ms = now_ms + lasts_ms
        decision = NewestDecision(
            f"{now_ms}", user, now_ms, ends_ms, now_ms, tokens=-RATE, quota=RATE, is_throttle=is_throttle
        )
        self.decisions.see([decision], now_ms, is_committed_now=True)
        self.oracle.throttled[user] = self.topic.steady_ms + lasts_ms

    def throttle(self, user: str) -> None:
        left_ms = self.oracle.throttled.get(user, 0) - self.topic.steady_ms
        # A renewal never ends earlier.
        self.commit(user, max(left_ms, self.pick([60_000, 900_000, 3_600_000])), is_throttle=True)

    def end(self, user: str) -> None:
        self.topic.pass_ms(1)
        self.commit(user, 0, is_throttle=False)

    def change_quota(self, user: str) -> None:
        self.oracle.without_quota ^= {user}

    def release(self, user: str) -> None:
        principal = self.pick([user, EVERYBODY])
        length_ms = self.pick([30_000, 600_000])
        record = Release(cluster_id=CLUSTER, release_ms=length_ms, by="carol")
        self.topic.append(release_key(principal), msgspec.json.encode(record))
        self.topic.poll()
        self.broker.obey(self.topic)
        self.oracle.releases[principal] = self.topic.steady_ms + length_ms

    def hold(self, user: str) -> None:
        length_ms = self.pick([30_000, 600_000])
        record = Hold(cluster_id=CLUSTER, hold_ms=length_ms, until_ms=0, writer="carol")
        self.topic.append(hold_key(user), msgspec.json.encode(record))
        self.topic.poll()
        self.broker.obey(self.topic)
        self.oracle.by_hand[user] = self.topic.steady_ms + length_ms

    def crash(self, _: str) -> None:
        """Stop the stream, or start it again."""
        self.is_dead, self.dead_since_ms = not self.is_dead, self.topic.steady_ms
        if not self.is_dead:
            self.restart()

    def fail(self, _: str) -> None:
        """Let the topic lose its leader, or have one again."""
        self.topic.is_down = not self.topic.is_down
        self.dead_since_ms = self.topic.steady_ms if self.topic.is_down and not self.is_dead else self.dead_since_ms


@pytest.mark.parametrize("seed", range(0, WALKS, 10))
def test_a_broker_holds_exactly_who_has_to_be_held(seed: int) -> None:
    for number in range(seed, seed + 10):
        walk = Walk(number)
        for _ in range(STEPS):
            walk.happen()
            now_ms = walk.topic.steady_ms
            held, wanted = walk.broker.held(now_ms), walk.oracle.held(now_ms)
            if not (walk.is_dead or walk.topic.is_down):
                assert held == wanted, (number, held, wanted)
            elif now_ms - walk.dead_since_ms > MAX_HOLD_MS:
                # Whom nobody extends is free; a person may hold meanwhile.
                by_hand = {each for each, end_ms in walk.oracle.by_hand.items() if end_ms > now_ms}
                assert held <= by_hand, (number, held)
