"""Holds and releases by hand, on a topic in memory that brokers obey, or do not."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from typing_extensions import Self

from broker.enforcement import by_hand
from broker.enforcement.by_hand import OBEY_S
from broker.enforcement.model import Change
from broker.errors import BrokerUnreachableError, HoldNotWrittenError, NotHeldError
from tests.kits.hold_topic_kit import CLUSTER, MemoryTopic, held
from tests.kits.plan_kit import ALICE, MALLORY, MINUTE_MS, NOW_MS, hold
from wire.holds import EVERYBODY, MAX_HOLD_MS, Release, release_key

POLL_MS = 100
HOUR_MS = 60 * MINUTE_MS


@dataclass
class Brokers(MemoryTopic):
    """Brokers that report with each poll, which takes `POLL_MS`.

    Attributes:
        obeying: brokers that obey.
        deaf: brokers that are alive and read no record.
        never: principals that no broker holds.
    """

    obeying: tuple[int, ...] = (1, 2)
    deaf: tuple[int, ...] = ()
    has_authorizer: bool = True
    never: frozenset[str] = field(default_factory=frozenset)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def poll(self, wait_s: float = 0) -> None:
        if wait_s:
            self.pass_ms(POLL_MS)
            for broker_id in (*self.obeying, *self.deaf):
                self.alive(broker_id, has_authorizer=self.has_authorizer)
            for broker_id in self.obeying if self.has_authorizer else ():
                self.obey(broker_id, [held(each) for each in self._held()])
        super().poll()

    def release(self, principal: str, release: Release) -> int:  # type: ignore[override]
        self.append(release_key(principal), msgspec.json.encode(release))
        super().poll()
        return len(self.records) - 1

    def _held(self) -> list[str]:
        state = self.state
        if EVERYBODY in state.releases:
            return []
        return [each for each in state.holds if each not in state.releases and each not in self.never]


def use(monkeypatch: pytest.MonkeyPatch, topic: Brokers, *principals: str) -> Brokers:
    """Let the functions find the topic, with holds of a stream."""
    topic.write([Change(each, hold()) for each in principals])
    monkeypatch.setattr(by_hand, "HoldTopic", lambda _: topic)
    monkeypatch.setattr(by_hand, "steady_ms", lambda: topic.steady_ms)
    clock = SimpleNamespace(monotonic=lambda: topic.steady_ms / 1000, time_ns=lambda: topic.appended_ms * 1_000_000)
    monkeypatch.setattr(by_hand, "time", clock)
    return topic


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    return use(monkeypatch, Brokers(NOW_MS), MALLORY, ALICE)


def test_to_release_somebody_whom_nobody_holds_is_an_error_that_lists_who_is_held(brokers: Brokers) -> None:
    before = len(brokers.records)
    with pytest.raises(NotHeldError, match=r"User:bob is not on hold. On hold: User:alice, User:mallory"):
        by_hand.release({}, "User:bob", HOUR_MS, "carol@host")
    assert len(brokers.records) == before


def test_a_hold_by_hand_has_no_epoch_and_lasts_at_most_as_long_as_brokers_accept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brokers = use(monkeypatch, Brokers(NOW_MS))
    obeyed = by_hand.hold({}, MALLORY, HOUR_MS, "carol@host")
    assert (obeyed.brokers, obeyed.held) == ([1, 2], [MALLORY])
    written = brokers.state.holds[MALLORY]
    assert (written.hold.hold_ms, written.hold.writer, written.is_by_hand) == (MAX_HOLD_MS, "carol@host", True)


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        (Brokers(NOW_MS, deaf=(3,)), f"not obeyed within {OBEY_S:g} s by broker 3: the record stays in the topic"),
        (Brokers(NOW_MS, never=frozenset({MALLORY})), r"s \(brokers have limits of their own"),
    ],
    ids=["deaf", "never"],
)
def test_a_broker_that_does_not_obey_is_named(monkeypatch: pytest.MonkeyPatch, topic: Brokers, reason: str) -> None:
    use(monkeypatch, topic)
    with pytest.raises(HoldNotWrittenError, match=reason):
        by_hand.hold({}, MALLORY, HOUR_MS, "carol@host")


@pytest.mark.parametrize(
    "topic", [Brokers(NOW_MS, obeying=()), Brokers(NOW_MS, has_authorizer=False)], ids=["none", "without"]
)
def test_without_a_broker_that_can_hold_nothing_is_written(monkeypatch: pytest.MonkeyPatch, topic: Brokers) -> None:
    use(monkeypatch, topic)
    with pytest.raises(BrokerUnreachableError, match=r"no broker with the plugin's authorizer has reported in 20 s"):
        by_hand.hold({}, MALLORY, HOUR_MS, "carol@host")
    assert topic.records == []


def test_brokers_without_the_plugin_s_authorizer_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = use(monkeypatch, Brokers(NOW_MS, obeying=(1,)), MALLORY)
    brokers.alive(7, has_authorizer=False)
    assert by_hand.release({}, MALLORY, HOUR_MS, "carol@host").brokers == [1]


@pytest.mark.parametrize("principal", [MALLORY, EVERYBODY])
def test_a_hold_of_somebody_who_is_released_says_so_and_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, principal: str
) -> None:
    topic = Brokers(NOW_MS)
    topic.release(principal, Release(cluster_id=CLUSTER, release_ms=HOUR_MS, by="carol"))
    use(monkeypatch, topic)
    who = "everybody" if principal == EVERYBODY else MALLORY
    with pytest.raises(HoldNotWrittenError, match=rf"{who} is released for 3\d{{3}} s more, by carol"):
        by_hand.hold({}, MALLORY, HOUR_MS, "dave@host")
    assert len(topic.records) == 1


def test_what_brokers_say_of_another_record_is_not_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Brokers(NOW_MS, never=frozenset({MALLORY}))
    topic.obey(1, ignored="User:other: pid.quota.max.holds is 5")
    use(monkeypatch, topic)
    with pytest.raises(HoldNotWrittenError) as raised:
        by_hand.hold({}, MALLORY, HOUR_MS, "carol@host")
    assert "User:other" not in str(raised.value)


class OneHolds(Brokers):
    """Brokers that all read the topic, and of which only the first one holds."""

    def obey(self, broker_id: int = 1, held: Sequence[dict[str, Any]] = (), ignored: str | None = None) -> None:
        super().obey(broker_id, held if broker_id == 1 else (), ignored)


class Keeps(Brokers):
    """Brokers that read a release, and go on holding."""

    def _held(self) -> list[str]:
        return [*self.state.holds]


def test_a_hold_is_obeyed_only_if_all_brokers_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, OneHolds(NOW_MS))
    with pytest.raises(HoldNotWrittenError, match="brokers have limits of their own"):
        by_hand.hold({}, MALLORY, MINUTE_MS, "carol@host")


def test_a_release_is_obeyed_only_if_no_broker_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Keeps(NOW_MS), MALLORY)
    with pytest.raises(HoldNotWrittenError):
        by_hand.release({}, MALLORY, MINUTE_MS, "carol@host")
