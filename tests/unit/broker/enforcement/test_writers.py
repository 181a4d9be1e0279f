"""Several streams on one cluster: the first holds, the others wait, and never do all of them wait."""

from dataclasses import dataclass, field, replace
from importlib import metadata

import numpy as np
import pytest

from broker.enforcement.enforcer import Decisions, Enforcer, Note
from broker.enforcement.model import WRITER_MS, Limits
from broker.errors import HoldNotWrittenError
from quota.limits import Limit, Quotas
from tests.kits.hold_topic_kit import MemoryTopic
from tests.kits.plan_kit import MALLORY, NOW_MS, RATE, WINDOW_MS, decision
from wire.holds import Hold, parse_hold_record, parse_writer_record

QUOTAS = Quotas({}, Limit(RATE, "default"))


class Cluster:
    """A topic that several streams read, each for itself, and their common clock."""

    def __init__(self) -> None:
        self.topic = MemoryTopic(NOW_MS)

    def pass_ms(self, ms: int) -> None:
        self.topic.pass_ms(ms)

    def holders(self) -> dict[str, str]:
        """Return who wrote the newest hold of each user."""
        found = {}
        for each in self.topic.records:
            record = parse_hold_record(each.key, each.value)
            if record and record.content:
                found[record.principal] = record.content.writer if isinstance(record.content, Hold) else ""
        return found


@dataclass
class Stream:
    """A stream of its own folder, that is over nobody's shoulder: it sees only the topic."""

    cluster: Cluster
    name: str
    starts: int = 0
    notes: list[Note] = field(default_factory=list)
    is_running: bool = False
    enforce: bool = True

    def start(self) -> "Stream":
        self.starts += 1
        self.topic = MemoryTopic(self.cluster.topic.appended_ms, records=self.cluster.topic.records)
        self.topic.steady_ms = self.cluster.topic.steady_ms
        self.topic.alive()
        self.topic.state.see_reports(self.topic.reports, self.topic.steady_ms)
        before = [replace(each, is_old=True) for each in self.topic.records]
        self.topic.state.see_holds(before, self.topic.steady_ms)
        self.decisions = Decisions()
        self.enforcer = Enforcer(
            Limits(enforce=self.enforce), WINDOW_MS, self.name, self.notes.append, start_ms=NOW_MS + self.starts
        )
        self.is_running = True
        self.yields_to = ""
        return self

    def step(self, *users: str) -> int:
        """Plan once; return the number of holds written."""
        now_ms, before = self.cluster.topic.appended_ms, len(self.cluster.topic.of_holds())
        self.topic.appended_ms, self.topic.steady_ms = now_ms, self.cluster.topic.steady_ms
        self.topic.alive()
        self.topic.poll()
        found = [decision(user, begun=(NOW_MS - now_ms) / 60_000, minutes=120) for user in users]
        self.decisions.see(found, now_ms, is_committed_now=True)
        made = self.enforcer.step(self.topic, self.decisions, QUOTAS, self.topic.steady_ms)
        self.yields_to = made.yields_to
        return len(self.cluster.topic.of_holds()) - before

    def said(self) -> list[str]:
        found = [each.reason for each in self.notes if each.state == "alert"]
        self.notes.clear()
        return found


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_the_second_stream_says_so_and_takes_no_holds_though_the_first_holds_nobody(cluster: Cluster) -> None:
    # given a stream, and another that was started later
    first, second = Stream(cluster, "z").start(), Stream(cluster, "a").start()
    first.step()
    second.step()
    first.step()
    assert second.said() == [
        "another stream (z) was first on this cluster: this one takes no holds while that one is alive"
    ]
    assert first.said() == ["another live stream (a) writes holds: end one of the two"]

    # when both decide the same
    assert [second.step(MALLORY), first.step(MALLORY)] == [0, 1]

    # then only the first holds
    assert cluster.holders() == {MALLORY: "z"}
    assert first.said() == second.said() == []


def test_the_second_takes_the_holds_when_the_first_is_dead_and_keeps_them_when_it_comes_back(cluster: Cluster) -> None:
    first, second = Stream(cluster, "a").start(), Stream(cluster, "b").start()
    first.step(MALLORY)
    second.step(MALLORY)
    second.said()

    # when the first says nothing for too long
    cluster.pass_ms(WRITER_MS + 1)
    assert second.step() == 1
    assert second.said() == ["stream a has ended: this one takes the holds"]

    # then it comes back as the second
    first.start()
    assert first.step(MALLORY) == 0
    assert first.yields_to == "b"
    assert second.step() == 0


def test_a_stream_that_ends_hands_its_holds_to_the_other_at_once(cluster: Cluster) -> None:
    first, second = Stream(cluster, "a").start(), Stream(cluster, "b").start()
    first.step(MALLORY)
    second.step(MALLORY)
    first.enforcer.leave(first.topic)
    assert second.step() == 1
    assert cluster.holders() == {MALLORY: "b"}
    # and it comes back as the second
    assert first.start().step(MALLORY) == 0


def test_the_first_stays_the_first_over_a_short_restart(cluster: Cluster) -> None:
    first, second = Stream(cluster, "z").start(), Stream(cluster, "a").start()
    first.step()
    second.step()
    cluster.pass_ms(WRITER_MS // 2)
    second.step(MALLORY)
    first.start()
    assert first.step(MALLORY) == 1
    assert second.step() == 0
    assert (first.yields_to, second.yields_to) == ("", "z")


def test_a_copy_of_a_folder_takes_over_and_the_older_process_stays_silent(cluster: Cluster) -> None:
    first = Stream(cluster, "a").start()
    first.step(MALLORY)
    copy = Stream(cluster, "a", starts=5).start()
    copy.step(MALLORY)
    for _ in range(5):
        cluster.pass_ms(60_000)
        written = first.step()
        copy.step()
        assert written == 0
    found = [parse_writer_record(each.key, each.headers) for each in cluster.topic.records]
    epochs = [each.epoch for each in found if each]
    assert epochs == sorted(epochs)


def test_an_older_process_that_ends_does_not_give_the_place_of_the_newer_one_away(cluster: Cluster) -> None:
    # given two processes of a stream, and another stream that waits
    older, newer = Stream(cluster, "a").start(), Stream(cluster, "a", starts=5).start()
    other = Stream(cluster, "b").start()
    for each in (older, other, newer, older):
        each.step(MALLORY)

    # when the older process ends
    older.enforcer.leave(older.topic)

    # then the newer one goes on
    assert other.step() == 0
    assert other.yields_to == "a"


def test_a_start_outdoes_the_one_before_though_the_clock_went_back_and_nobody_is_held(cluster: Cluster) -> None:
    Stream(cluster, "a", starts=5).start().step()
    later = Stream(cluster, "a").start()
    assert later.step(MALLORY) == 1
    assert cluster.holders() == {MALLORY: "a"}


def test_a_stream_that_only_says_whom_it_would_hold_takes_nobody_s_place(cluster: Cluster) -> None:
    # given a stream without --enforce that was there first
    dry = Stream(cluster, "a", enforce=False).start()
    assert dry.step(MALLORY) == 0
    assert [each.state for each in dry.notes] == ["would_hold"]
    assert cluster.topic.records == []

    # when another one enforces
    first = Stream(cluster, "b").start()
    assert first.step(MALLORY) == 1
    dry.step(MALLORY)

    # then neither waits for the other, and the first one says who holds the user
    assert [each.reason for each in dry.notes if each.state == "left_out"] == ["another stream holds it: b"]
    assert first.said() == []
    assert (first.yields_to, dry.yields_to) == ("", "")


def test_a_stream_says_which_version_it_is(cluster: Cluster) -> None:
    Stream(cluster, "a").start().step()
    (record,) = cluster.topic.records
    found = parse_writer_record(record.key, record.headers)
    assert found is not None
    assert found.version == metadata.version("pid-quota")


def test_a_topic_that_was_made_anew_is_announced_to_again(cluster: Cluster) -> None:
    first = Stream(cluster, "a").start()
    first.step()
    cluster.topic.records.clear()
    first.topic.state.forget()
    first.step()
    assert len(cluster.topic.records) == 1


@pytest.mark.parametrize("seed", range(100))
def test_however_streams_come_and_go_exactly_one_of_the_live_ones_holds(seed: int) -> None:
    chance = np.random.default_rng(seed)
    cluster = Cluster()
    streams = [Stream(cluster, name) for name in "cab"]
    for _ in range(150):
        each = streams[int(chance.integers(3))]
        if each.is_running and chance.random() < 0.2:
            each.is_running = False
        elif not each.is_running and chance.random() < 0.5:
            each.start()
        cluster.pass_ms(int(chance.choice([100, 1_000, 30_000])))
        running = [each for each in streams if each.is_running]
        for each in sorted(running, key=lambda _: chance.random()):
            try:
                each.step(MALLORY)
            except HoldNotWrittenError:
                pytest.fail("the topic is never down here")
        leaders = [each.name for each in running if not each.yields_to]
        assert len(leaders) <= 1, leaders
        # A stream that was killed counts as alive for a while: nobody takes its place so soon.
        if running and not leaders:
            assert {each.yields_to for each in running} - {each.name for each in running}
    # and one leads once the others have been silent for long
    running = [each for each in streams if each.is_running] or [streams[0].start()]
    for _ in range(6):
        cluster.pass_ms(WRITER_MS // 5)
        for each in running:
            each.step(MALLORY)
    assert [each.name for each in running if not each.yields_to] == [cluster.holders()[MALLORY]]
