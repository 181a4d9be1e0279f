"""The stream's enforcing thread with a real broker: from a committed batch to a client that waits, and back."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.enforcement import by_hand
from broker.enforcement.hold_topic import HoldTopic, steady_ms
from broker.enforcement.model import Change, Limits
from broker.errors import HoldNotWrittenError
from broker.local.local_broker import LocalBroker
from jobs.stream.enforcing import EnforcingThread, HoldNotes
from quota.limits import Limit, Quotas
from streaming.commit.sinks import BatchSummary
from tests.kits.admin_kit import delete_topic
from tests.kits.broker_kit import wait_until
from tests.kits.hold_kit import Asker
from wire.topics import HOLDS

MALLORY = "User:mallory"
WINDOW_MS = 3_600_000
HOUR_S = 3600.0
QUOTAS = Quotas({}, Limit(100.0, "default"))


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def row(action: str = "THROTTLE", *, lasts_s: float = HOUR_S, principal: str = MALLORY) -> dict[str, Any]:
    at_ms = now_ms()
    ends_ms = at_ms + round(1000 * lasts_s) if action == "THROTTLE" else at_ms
    values = {"decision_id": f"d{at_ms}", "principal": principal, "action": action, "decided_at": at_ms}
    return values | {"throttled_until": ends_ms, "tokens": -100.0, "quota": 100.0, "refused_pids": 100}


class Stream:
    """A stream's thread, to which a test commits batches."""

    def __init__(self, broker: LocalBroker, user: str = "alice", *, enforce: bool = True, writer: str = "s1") -> None:
        self.lines: list[str] = []
        self.notes = HoldNotes()
        self.quotas = QUOTAS
        limits = Limits(enforce=enforce)
        self.thread = EnforcingThread(
            broker.client_config(user),
            limits,
            WINDOW_MS,
            self.notes,
            lambda text, _: self.lines.append(text),
        )
        self._writer = writer

    def start(self, *rows: dict[str, Any]) -> "Stream":
        self.thread.restore(rows)
        self.thread.start(self._writer, lambda: self.quotas)
        return self

    def commit(self, *rows: dict[str, Any]) -> None:
        self.thread.observe(BatchSummary(1, {"throttle_decisions": rows}, 0.0, self.quotas))

    def told(self, words: str) -> bool:
        return any(words in line for line in self.lines)


@pytest.fixture
def topic(held_broker: LocalBroker) -> Iterator[HoldTopic]:
    """A view of the topic, which a test leaves without holds and releases."""
    with HoldTopic(held_broker.admin_config()) as found:
        yield found
        found.poll()
        for principal in [*found.state.releases]:
            found.release(principal, None)
        found.write([Change(principal, None) for principal in found.state.holds] or [Change(MALLORY, None)])
        wait_until(lambda: not on_hold(found), "nobody is held")


@pytest.fixture
def streams(held_broker: LocalBroker, topic: HoldTopic) -> Iterator[Callable[..., Stream]]:
    """Makes streams, and ends them before the topic is emptied."""
    del topic
    made: list[Stream] = []

    def make(**more: Any) -> Stream:
        made.append(Stream(held_broker, **more))
        return made[-1]

    yield make
    for each in made:
        each.thread.close()


def on_hold(topic: HoldTopic) -> set[str]:
    topic.poll(0.05)
    return {principal for broker in topic.state.live(steady_ms()) for principal in topic.state.held_by(broker)}


def test_a_committed_decision_holds_and_its_release_lets_go(
    held_broker: LocalBroker, topic: HoldTopic, streams: Callable[..., Stream]
) -> None:
    # given a stream, and a client of the user
    stream = streams().start()
    with Asker(held_broker, "mallory") as mallory, Asker(held_broker, "alice") as alice:
        assert mallory.gets_one()

        # when a batch with a decision is committed
        stream.commit(row())
        wait_until(lambda: on_hold(topic) == {MALLORY}, "the broker holds mallory")

        # then the user's new producers wait, and no others
        assert not mallory.gets_one()
        assert alice.gets_one()
        assert stream.told("User:mallory is on hold until ")

        # and when the ledger releases, they go on
        stream.commit(row("RELEASE"))
        wait_until(lambda: not on_hold(topic), "nobody is held")
        assert mallory.gets_one()
        wait_until(lambda: stream.told("User:mallory is no longer on hold"), "it is told")


def test_a_decision_from_before_a_crash_is_held_before_the_first_batch(
    topic: HoldTopic, streams: Callable[..., Stream]
) -> None:
    streams().start(row())
    wait_until(lambda: on_hold(topic) == {MALLORY}, "the broker holds mallory")


def test_a_stream_that_ends_leaves_its_holds_and_one_without_enforce_ends_them(
    topic: HoldTopic, streams: Callable[..., Stream]
) -> None:
    # given a hold of a stream that has ended
    first = streams().start(row())
    wait_until(lambda: on_hold(topic) == {MALLORY}, "the broker holds mallory")
    first.thread.close()
    wait_until(lambda: on_hold(topic) == {MALLORY}, "the report is there")

    # when it starts again, but without --enforce
    second = streams(enforce=False).start(row())

    # then the hold ends, and the decision is a row for the table
    wait_until(lambda: not on_hold(topic), "nobody is held")
    wait_until(lambda: bool(second.notes.pending()), "the note is there")
    assert [each["state"] for each in second.notes.pending()] == ["would_hold"]


def test_a_stream_that_may_not_write_says_what_is_missing_and_goes_on(
    topic: HoldTopic, streams: Callable[..., Stream]
) -> None:
    # given a user whom pid.quota.writers does not name
    stream = streams(user="mallory").start(row(principal="User:victim"))
    wait_until(lambda: stream.told("pid.quota.writers"), "it is told")
    assert on_hold(topic) == set()
    assert len([line for line in stream.lines if "pid.quota.writers" in line]) == 1


def test_a_topic_that_was_deleted_is_made_again_and_written_again(
    held_broker: LocalBroker, topic: HoldTopic, streams: Callable[..., Stream]
) -> None:
    stream = streams().start(row())
    wait_until(lambda: on_hold(topic) == {MALLORY}, "the broker holds mallory")
    delete_topic(held_broker, HOLDS)

    def is_held_again() -> bool:
        try:
            with HoldTopic(held_broker.admin_config()) as found:
                return MALLORY in found.state.holds
        except Exception:
            return False

    wait_until(is_held_again, "the hold is in the new topic")
    del stream


class TestByHand:
    def test_a_release_is_obeyed_when_it_returns_and_the_stream_does_not_hold_again(
        self, held_broker: LocalBroker, topic: HoldTopic, streams: Callable[..., Stream]
    ) -> None:
        stream = streams().start(row())
        wait_until(lambda: on_hold(topic) == {MALLORY}, "the broker holds mallory")

        obeyed = by_hand.release(held_broker.client_config("alice"), MALLORY, 600_000, "carol")

        assert (obeyed.brokers, obeyed.held) == ([1], [])
        with Asker(held_broker, "mallory") as mallory:
            assert mallory.gets_one()
            stream.commit(row())
            wait_until(lambda: stream.told("a release is in force"), "it is told")
            assert mallory.gets_one()

    @pytest.mark.parametrize("name", ["User:system:serviceaccount:ns:app", r"User:CN=app-1,OU=Pay,O=Acme\, Inc.,C=DE"])
    def test_a_hold_and_a_release_of_any_name(self, held_broker: LocalBroker, topic: HoldTopic, name: str) -> None:
        config = held_broker.client_config("alice")
        assert by_hand.hold(config, name, 600_000, "carol").held == [name]
        wait_until(lambda: on_hold(topic) == {name}, "the report is there")
        assert by_hand.release(config, name, 1_000, "carol").held == []

    def test_a_hold_that_the_broker_refuses_is_an_error_with_its_reason(
        self, held_broker: LocalBroker, topic: HoldTopic, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        del topic
        monkeypatch.setattr(by_hand, "OBEY_S", 5.0)
        with pytest.raises(HoldNotWrittenError, match=r"pid\.quota\.never"):
            by_hand.hold(held_broker.client_config("alice"), "User:never", 600_000, "carol")


def test_the_thread_ends_when_the_stream_ends(held_broker: LocalBroker) -> None:
    stream = Stream(held_broker).start()
    stream.thread.close()
    wait_until(lambda: all(each.name != "pid-quota-enforcing" for each in threading.enumerate()), "it ends")
