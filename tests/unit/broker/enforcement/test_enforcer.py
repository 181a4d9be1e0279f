"""The enforcer over a topic in memory: decisions come in, records go out, and people are told once."""

from dataclasses import replace

import msgspec
import pytest

from broker.enforcement.brokers_time import TRUST_AGAIN_MS, BrokersTime
from broker.enforcement.enforcer import KEEP_MS, Decisions, Enforcer, Note
from broker.enforcement.hold_state import HoldState, Read
from broker.enforcement.model import Change, Limits, NewestDecision
from broker.errors import HoldNotWrittenError
from quota.limits import Limit, Quotas
from tests.kits.hold_topic_kit import CLUSTER, MemoryTopic, held
from tests.kits.plan_kit import ALICE, MALLORY, MINUTE_MS, NOW_MS, RATE, WINDOW_MS, decision, hold, released
from wire.holds import hold_key

QUOTAS = Quotas({}, Limit(RATE, "default"))
SECOND_MS = 1_000


class Bench:
    """An enforcer, its topic, and what it told."""

    def __init__(self, limits: Limits | None = None, topic: MemoryTopic | None = None, *, start_ms: int = 5) -> None:
        self.topic = topic or MemoryTopic(NOW_MS)
        self.notes: list[Note] = []
        self.decisions, self.quotas = Decisions(), QUOTAS
        limits = limits or Limits(enforce=True)
        self.enforcer = Enforcer(limits, WINDOW_MS, "stream-1", self.notes.append, start_ms=start_ms)

    def see(self, *found: NewestDecision, is_committed_now: bool = True) -> None:
        now_ms = self.topic.state.time.now_ms(self.topic.steady_ms)
        self.decisions.see(found, now_ms, is_committed_now=is_committed_now)

    def step(self, ms: int = SECOND_MS) -> int:
        """Plan once after some time. Return the number of records written."""
        before = len(self.topic.of_holds())
        self.topic.pass_ms(ms)
        self.topic.alive()
        self.enforcer.step(self.topic, self.decisions, self.quotas, self.topic.steady_ms)
        return len(self.topic.of_holds()) - before

    def told(self) -> list[tuple[str, str]]:
        found = [(each.state, each.principal) for each in self.notes]
        self.notes.clear()
        return found


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_decision_becomes_one_record_that_is_extended_at_half_time(bench: Bench) -> None:
    # given a decision of an hour
    bench.see(decision())

    # when the enforcer plans for 21 minutes
    written = [bench.step(MINUTE_MS) for _ in range(21)]

    # then it writes at once, and again at half-time of each lease of ten minutes
    assert [minute for minute, count in enumerate(written) if count] == [0, 6, 12, 18]
    assert bench.told() == [("held", MALLORY)]


def test_decisions_count_by_their_time_whatever_their_order(bench: Bench) -> None:
    # given a renewal and a release that came before the throttle that they follow, twice
    first, last = decision(begun=9), replace(released(), decided_at_ms=NOW_MS - 1)
    bench.see(last, first, last, first)

    # then nobody is held
    assert bench.step() == 0


def test_a_renewal_keeps_the_throttle_s_begin_and_a_new_throttle_does_not(bench: Bench) -> None:
    bench.see(decision(begun=9), decision(begun=1, decision_id="renewal"))
    assert bench.decisions.newest[MALLORY].since_ms == NOW_MS - 9 * MINUTE_MS
    bench.see(replace(released(), decided_at_ms=NOW_MS - 500), decision(decision_id="new"))
    assert bench.decisions.newest[MALLORY].since_ms == NOW_MS


def test_a_late_row_does_not_bring_an_ended_throttle_back(bench: Bench) -> None:
    bench.see(decision(), replace(released(), decided_at_ms=NOW_MS + 1))
    bench.step()
    bench.see(decision())
    assert bench.step() == 0
    # and decisions are forgotten in the end, but no sooner than late rows come
    bench.decisions.forget_over(NOW_MS + KEEP_MS - 1)
    assert bench.decisions.newest.keys() == {MALLORY}
    bench.decisions.forget_over(NOW_MS + WINDOW_MS + KEEP_MS)
    assert bench.decisions.newest == {}


def test_old_decisions_of_a_stream_that_catches_up_hold_nobody_until_it_is_there(bench: Bench) -> None:
    # given a stream that commits a decision two minutes late
    bench.step()
    bench.see(decision(begun=2))
    assert bench.step() == 0
    assert bench.told() == [("left_out", MALLORY)]

    # when it has caught up, and renews the throttle
    bench.see(decision(begun=-0.01, decision_id="renewal"))

    # then the user is held
    assert bench.step() == 1


def test_a_mirrored_topic_of_another_cluster_counts_nothing(bench: Bench) -> None:
    bench.topic.release(MALLORY, 9 * MINUTE_MS, cluster_id="other")
    bench.topic.alive(9, cluster_id="other")
    bench.see(decision())
    assert bench.step() == 1
    assert bench.topic.state.brokers.keys() == {1}


def test_a_topic_made_anew_with_as_many_records_is_another_one() -> None:
    state = HoldState(CLUSTER)
    for user in (MALLORY, ALICE):
        state.see_holds([Read(0, NOW_MS, hold_key(user), msgspec.json.encode(hold()))], 0)
        assert state.holds.keys() == {user}


def test_confirmations_that_are_missing_are_counted_after_a_while(bench: Bench) -> None:
    # given two brokers with the authorizer, and one without
    bench.see(decision())
    bench.topic.alive(2)
    bench.topic.alive(3, has_authorizer=False)
    bench.step()
    assert bench.enforcer.standing.confirmations_missing == 0

    # when one broker confirms, with its counts
    bench.topic.obey(1, [held(MALLORY, held_requests=7, let_in=2), held(ALICE, ended="expired")])
    bench.step(6 * SECOND_MS)

    # then the other one is missing
    found = bench.enforcer.standing
    assert bench.topic.state.confirming(ALICE, bench.topic.steady_ms) == []
    assert (found.confirmations_missing, found.held_requests, found.let_in) == (1, 7, 2)


def test_a_broker_that_is_silent_for_long_does_not_count_for_the_pace(bench: Bench) -> None:
    bench.see(decision())
    bench.topic.alive(2)
    bench.step()
    assert bench.topic.state.holds[MALLORY].hold.init_every_ms == 72_000
    bench.step(31 * SECOND_MS)
    assert bench.topic.state.holds[MALLORY].hold.init_every_ms == 36_000


def test_a_hold_counts_from_when_it_is_read_as_on_the_brokers_whose_clocks_differ(bench: Bench) -> None:
    # given a leader of the topic of holds whose clock is 40 s behind that of the reports' leader
    bench.step()
    bench.topic.appended_ms -= 40 * SECOND_MS
    bench.topic.write([Change(MALLORY, hold())])

    # then the hold lasts as long as the record says
    now_ms = bench.topic.state.time.now_ms(bench.topic.steady_ms)
    assert now_ms is not None
    assert bench.topic.state.holds[MALLORY].ends_ms - now_ms == 10 * MINUTE_MS


class TestBrokersTime:
    def test_is_unknown_after_a_step_back_and_counts_again_when_it_lasts(self) -> None:
        time = BrokersTime()
        time.observe(10_000_000, 0)
        time.observe(6_400_000, 10)
        assert time.now_ms(20) is None
        time.observe(6_400_000 + TRUST_AGAIN_MS, 10 + TRUST_AGAIN_MS)
        assert time.now_ms(10 + TRUST_AGAIN_MS) == 6_400_000 + TRUST_AGAIN_MS

    def test_clocks_of_leaders_that_differ_by_a_minute_are_no_step(self) -> None:
        time = BrokersTime()
        time.observe(10_000_000, 0)
        time.observe(9_940_000, 0)
        assert time.now_ms(0) == 9_940_000

    def test_a_record_from_before_the_start_is_not_later_than_now(self) -> None:
        time = BrokersTime()
        time.observe_old(1_000, 500)
        time.observe_old(400, 500)
        assert time.now_ms(500) == 1_000


def test_an_unknown_time_ends_nothing_and_begins_nothing(bench: Bench) -> None:
    bench.see(decision())
    bench.step()
    # given clocks that went back by an hour
    bench.topic.appended_ms -= WINDOW_MS
    bench.see(replace(released(), decided_at_ms=NOW_MS + 1), decision(ALICE))
    assert [bench.step() for _ in range(30)] == [0] * 30
    left_out = {each.reason for each in bench.notes if each.state == "left_out"}
    assert left_out == {"the brokers' time is unknown, or it went back"}


def test_a_report_that_comes_after_a_newer_one_of_its_broker_does_not_count(bench: Bench) -> None:
    bench.step()
    bench.topic.obey(1, [held(MALLORY)])
    bench.topic.appended_ms -= SECOND_MS
    bench.topic.obey(1)
    bench.topic.appended_ms += SECOND_MS
    bench.step(0)
    assert bench.topic.state.confirming(MALLORY, bench.topic.steady_ms) == [1]


def test_an_epoch_far_ahead_stops_the_stream_only_while_its_record_is_in_force(bench: Bench) -> None:
    # given a record by mistake with this stream's name and the greatest epoch, for a second
    bench.topic.write([Change(ALICE, hold(minutes=1 / 60, writer_epoch=2**53 - 1))])
    bench.see(decision())
    assert bench.step(SECOND_MS // 2) == 0

    # when it runs out, then the stream holds again, and so does its next start, each with one record
    assert [bench.step() for _ in range(3)] == [1, 0, 0]
    second = Bench(topic=MemoryTopic(bench.topic.appended_ms, records=bench.topic.records), start_ms=6)
    second.see(decision(), is_committed_now=False)
    assert sum(second.step() for _ in range(4)) == 1


def test_a_record_from_before_the_start_counts_from_its_own_time() -> None:
    state = HoldState(CLUSTER)
    state.time.observe(NOW_MS, 0)
    state.see_holds([Read(0, NOW_MS - 9 * MINUTE_MS, hold_key(MALLORY), msgspec.json.encode(hold()), is_old=True)], 0)
    assert state.holds[MALLORY].ends_ms == NOW_MS + MINUTE_MS


def test_a_broker_that_stopped_does_not_count(bench: Bench) -> None:
    bench.topic.alive(2)
    bench.topic.stop(2)
    bench.see(decision())
    bench.step()
    assert bench.topic.state.live(bench.topic.steady_ms).keys() == {1}


def test_counts_of_brokers_that_are_gone_do_not_count(bench: Bench) -> None:
    bench.topic.obey(2, [held(MALLORY, held_requests=7, let_in=2)])
    bench.step()
    assert bench.enforcer.standing.held_requests == 7
    bench.step(31 * SECOND_MS)
    assert bench.enforcer.standing.held_requests == 0


def test_the_end_of_a_throttle_that_held_nobody_is_not_told() -> None:
    bench = Bench(Limits(enforce=True, never=frozenset({MALLORY})))
    bench.see(decision())
    bench.step()
    bench.see(replace(released(), decided_at_ms=NOW_MS + 1))
    bench.step()
    assert bench.told() == [("left_out", MALLORY)]


def test_a_ledger_that_is_steady_again_counts_again(bench: Bench) -> None:
    bench.see(decision())
    bench.decisions.see_ledger(MALLORY, is_saturated=True, is_learning=False)
    assert bench.step() == 0
    bench.decisions.see_ledger(MALLORY, is_saturated=False, is_learning=False)
    assert bench.step() == 1


def test_a_hold_that_could_not_be_written_is_not_told(bench: Bench) -> None:
    bench.see(decision())
    bench.topic.is_down = True
    with pytest.raises(HoldNotWrittenError):
        bench.step()
    assert bench.told() == []


def test_a_decision_that_comes_again_is_not_later_than_it_was(bench: Bench) -> None:
    """A batch that is committed again after a failure brings the same rows."""
    bench.step(0)
    bench.topic.is_down = True
    bench.see(decision())
    with pytest.raises(HoldNotWrittenError):
        bench.step(2 * MINUTE_MS)
    bench.see(decision())
    bench.topic.is_down = False
    assert bench.step() == 1
