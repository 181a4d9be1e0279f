"""The plan: who is held, as a table of situations, and properties that hold in all of them."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.enforcement.model import WRITER_MS, Change, Limits, Plan, Situation, Writer
from broker.enforcement.plan import plan
from quota.limits import Limit, Quotas
from quota.principals import OVERFLOW_PRINCIPALS
from tests.kits.plan_kit import (
    ALICE,
    EPOCH,
    MALLORY,
    MINUTE_MS,
    NOW_MS,
    PACE_MS,
    RATE,
    STREAM,
    after,
    decision,
    hold,
    quotas,
    record,
    release,
    released,
    situation,
)
from wire.holds import EVERYBODY, MAX_HOLD_MS

_Value = TypeVar("_Value")
END = None
DRY = Limits(enforce=False)
NEVER = Limits(enforce=True, never=frozenset({MALLORY}))
OTHER: dict[str, Any] = {"writer": "stream-2", "writer_epoch": 3}
LATER_START = Writer(epoch=EPOCH + 1, since=0, heard_ms=NOW_MS)
BY_HAND: dict[str, Any] = {"writer": "carol@laptop", "writer_epoch": None}


class Case(NamedTuple):
    """A situation, the minutes of the hold that is written (`END` ends one, `()` writes nothing), and why not."""

    given: Situation
    written: float | tuple[()] | None
    left_out: str = ""


CASES = {
    "a decision without a record is held for a lease": Case(situation(decision()), 10),
    "one that ends sooner is held until then": Case(situation(decision(minutes=3)), 3),
    "the same record stays": Case(situation(decision(), holds=[record()]), ()),
    "more than half left stays": Case(situation(decision(), holds=[record(left=5.1)]), ()),
    "less than half left is extended": Case(situation(decision(), holds=[record(left=4.9)]), 10),
    "less than half left of a decision that ends with it stays": Case(
        situation(decision(minutes=2), holds=[record(minutes=10, left=2)]), ()
    ),
    "a record that ran out is written again": Case(situation(decision(), holds=[record(left=-1)]), 10),
    "a decision that ends sooner shortens the record": Case(situation(decision(minutes=1), holds=[record()]), 1),
    "a record that ends a moment after its decision stays": Case(
        situation(decision(minutes=5), holds=[record(left=5.01)]), ()
    ),
    "a release of the ledger ends the record": Case(situation(released(), holds=[record()]), END),
    "an expired decision ends the record": Case(situation(decision(minutes=-1, begun=9), holds=[record()]), END),
    "an expired decision without a record is nothing": Case(situation(decision(minutes=-1, begun=9)), ()),
    "a record that ran out without a decision is nothing": Case(situation(released(), holds=[record(left=-1)]), ()),
    "a release of a broker whose clock is ahead is one": Case(situation(released(begun=-1)), ()),
    "a removed quota ends the record though no row says so": Case(
        situation(decision(), holds=[record()], quotas=Quotas()), END
    ),
    "a raised quota shortens the record though no row says so": Case(
        # 100 tokens are owed, and the quota gives 1,200 an hour: five minutes, of which one has passed.
        situation(decision(begun=1), holds=[record(init_every_ms=3_000)], quotas=quotas(mallory=1200)),
        4,
    ),
    "a lowered quota shortens nothing, and slows the pace": Case(
        situation(decision(), holds=[record()], quotas=quotas(mallory=50)), 10
    ),
    "the minimum of a throttle lasts though the bucket recovers before": Case(
        situation(decision(tokens=-1.0, minutes=3)), 3
    ),
    "another number of brokers changes the pace": Case(situation(decision(), holds=[record()], brokers=3), 10),
    "a stream that lags holds nobody anew": Case(
        situation(decision(delay_ms=61_000)), (), "the stream lagged: by 61 s (limit 60 s)"
    ),
    "a stream that lags does not begin again": Case(
        situation(decision(delay_ms=61_000), holds=[record(left=-1)]),
        (),
        "the stream lagged: by 61 s (limit 60 s)",
    ),
    "a stream that lags goes on holding": Case(situation(decision(delay_ms=61_000), holds=[record(left=1)]), 10),
    "a ledger that learns holds nobody": Case(situation(decision(), unsteady={MALLORY: "learns"}), (), "learns"),
    "a saturated ledger ends the record": Case(
        situation(decision(), holds=[record()], unsteady={MALLORY: "full"}), END, "full"
    ),
    "a release of the user holds nobody anew": Case(
        situation(decision(), releases=[release()]), (), "a release is in force"
    ),
    "a release leaves the record, which counts again after it": Case(
        situation(decision(), holds=[record()], releases=[release()]), (), "a release is in force"
    ),
    "a release of everybody": Case(situation(decision(), releases=[release(EVERYBODY)]), (), "a release is in force"),
    "releases of both": Case(
        situation(decision(), releases=[release(EVERYBODY, left=-1), release()]), (), "a release is in force"
    ),
    "a release of another user": Case(situation(decision(), releases=[release(ALICE)]), 10),
    "a release that ran out while the decision stands": Case(
        situation(decision(), releases=[release(left=-0.1), release(EVERYBODY, left=-0.1)]), 10
    ),
    "a released user whose decision ended": Case(situation(released(), holds=[record()], releases=[release()]), END),
    "a user in --never": Case(
        situation(decision(), limits=NEVER), (), "it is never held (--never, or the stream's own user)"
    ),
    "a user newly in --never": Case(
        situation(decision(), limits=NEVER, holds=[record()]),
        END,
        "it is never held (--never, or the stream's own user)",
    ),
    "a principal of another type": Case(situation(decision("Group:a")), (), "it is not a user that logs in"),
    "clients without a login": Case(situation(decision("User:ANONYMOUS")), (), "it is not a user that logs in"),
    "a user called like everybody in ACLs": Case(situation(decision("User:*")), (), "it is not a user that logs in"),
    "an unknown owner": Case(situation(decision("unknown")), (), "it is not a user that logs in"),
    "a shared ledger": Case(situation(decision(OVERFLOW_PRINCIPALS[3])), (), "it is not a user that logs in"),
    "a name with colons": Case(situation(decision("User:system:serviceaccount:ns:app")), 10),
    "a living stream's record is left to it": Case(
        situation(decision(), holds=[record(**OTHER)]), (), "another stream holds it: stream-2"
    ),
    "a dead stream's record is adopted": Case(situation(decision(), holds=[record(left=4.9, **OTHER)]), 10),
    "a dead stream's record without a decision runs out": Case(situation(holds=[record(left=4.9, **OTHER)]), ()),
    "an earlier start's record is adopted": Case(situation(decision(), holds=[record(writer_epoch=EPOCH - 1)]), 10),
    "an earlier start's record without a decision ends": Case(situation(holds=[record(writer_epoch=1)]), END),
    "a record by hand is never touched": Case(
        situation(decision(), holds=[record(**BY_HAND)]), (), "somebody holds it by hand: carol@laptop"
    ),
    "a record by hand without a decision stays": Case(situation(holds=[record(**BY_HAND)]), ()),
    "a record by hand that ran out": Case(situation(decision(), holds=[record(left=-1, **BY_HAND)]), 10),
    "without --enforce nobody is held": Case(situation(decision(), limits=DRY), ()),
    "--enforce taken away ends own holds": Case(situation(decision(), limits=DRY, holds=[record()]), END),
    "--enforce taken away leaves those of others": Case(
        situation(limits=DRY, holds=[record(**OTHER), record(ALICE, **BY_HAND)]), ()
    ),
    "brokers without the authorizer": Case(
        situation(decision(), has_authorizer=False), (), "no broker has the plugin's authorizer"
    ),
    "brokers that are down count as one": Case(situation(decision(), holds=[record()], brokers=0), ()),
    "a later start of the same stream has taken over": Case(
        situation(decision(), holds=[record(ALICE, writer_epoch=EPOCH + 1)]),
        (),
        "another process of this stream has taken over",
    ),
    "a later start has taken over before it holds anybody": Case(
        situation(decision(), writers={STREAM: LATER_START}),
        (),
        "another process of this stream has taken over",
    ),
    "a later start that died leaves the place to the one that lives on": Case(
        situation(decision(), writers={STREAM: replace(LATER_START, heard_ms=NOW_MS - WRITER_MS - 1)}), 10
    ),
    "a later start that has ended leaves the place, too": Case(
        situation(decision(), writers={STREAM: replace(LATER_START, is_gone=True)}), 10
    ),
    "a crash between commit and write: the next start writes": Case(
        situation(decision(begun=1), writer_epoch=EPOCH + 1), 10
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_plan_of_a_situation(case: Case) -> None:
    # given a situation
    # when it is planned
    made = plan(case.given)

    # then these records are written, and this is left out
    lengths = [each.hold and each.hold.hold_ms / MINUTE_MS for each in made.changes]
    assert lengths == ([] if case.written == () else [case.written])
    assert {each.reason for each in made.verdicts if each.outcome == "left_out"} == {case.left_out} - {""}


def test_a_hold_has_the_pace_of_the_quota_divided_by_the_brokers() -> None:
    # given three brokers, and a quota of 100 an hour
    # when its user is held
    (change,) = plan(situation(decision(), brokers=3)).changes

    # then each broker lets one in per 108 s, and the record names decision, end and writer
    assert change == Change(MALLORY, hold(init_every_ms=3 * PACE_MS))


def test_whoever_is_held_keeps_the_place_and_the_longest_throttled_comes_next() -> None:
    # given a limit of two, one user who is held and begun last, and three who wait
    users = [f"User:u{number}" for number in range(3)]
    waiting = [decision(user, begun=number) for number, user in enumerate(users)]
    held = decision(begun=0)
    given_now = situation(held, *waiting, holds=[record()], limits=Limits(enforce=True, max_held=2))

    # when planned
    made = plan(given_now)

    # then the one that waits longest takes the free place, and the others are told why not
    assert [each.principal for each in made.changes] == [users[2]]
    assert {each.decision.principal: each.reason for each in made.verdicts if each.reason} == dict.fromkeys(
        users[:2], "all places are taken: 2 (--max-held)"
    )

    # and when the held one is released, the next one takes its place
    then = after(given_now, made)
    freed = replace(then, decisions={**then.decisions, MALLORY: released()})
    assert [(each.principal, each.hold is None) for each in plan(freed).changes] == [(users[1], False), (MALLORY, True)]


def test_an_extension_needs_no_place() -> None:
    # given as many held users as the limit, whose holds are due
    users = [f"User:u{number}" for number in range(3)]
    limits = Limits(enforce=True, max_held=3)
    given_now = situation(*map(decision, users), holds=[record(user, left=1) for user in users], limits=limits)

    # when planned, then all are extended
    assert [each.principal for each in plan(given_now).changes] == users


def test_another_living_stream_is_named() -> None:
    made = plan(situation(holds=[record(ALICE, **OTHER)]))
    assert made == Plan(other_writers=("stream-2",))


USERS = [*(f"User:u{number}" for number in range(4)), "User:ANONYMOUS", "unknown"]
minutes = st.integers(-20, 80).map(float)
decisions = st.builds(
    lambda user, left, begun, delay, is_throttle: (
        decision(user, minutes=left, begun=begun, delay_ms=delay) if is_throttle else released(user, begun=begun)
    ),
    st.sampled_from(USERS),
    minutes,
    st.integers(0, 60).map(float),
    st.sampled_from([0, 61_000]),
    st.booleans(),
)
records = st.builds(
    lambda user, length, share, writer: record(user, minutes=length, left=length * share, **writer),
    st.sampled_from(USERS),
    st.sampled_from([1.0, 10.0]),
    st.sampled_from([-0.1, 0.1, 0.4, 0.6, 1.0]),
    st.sampled_from([{}, OTHER, BY_HAND, {"writer_epoch": 1}, {"init_every_ms": 5}]),
)
releases = st.builds(
    lambda user, left: release(user, left=left), st.sampled_from([*USERS, EVERYBODY]), st.sampled_from([-1.0, 20.0])
)
situations = st.builds(
    lambda some, holds, freed, enforce, most, rate, brokers: situation(
        *some,
        holds=holds,
        releases=freed,
        limits=Limits(enforce=enforce, never=frozenset({USERS[0]}), max_held=most),
        quotas=Quotas({"u1": Limit(rate, "user")}, Limit(RATE, "default")),
        brokers=brokers,
    ),
    st.lists(decisions, max_size=6),
    st.lists(records, max_size=6),
    st.lists(releases, max_size=2),
    st.booleans(),
    st.integers(1, 3),
    st.sampled_from([None, 10.0, 1000.0]),
    st.integers(0, 3),
)


@given(situations)
def test_a_second_plan_changes_nothing(given_now: Situation) -> None:
    assert plan(after(given_now, plan(given_now))).changes == ()


@given(situations, st.randoms(use_true_random=False))
def test_the_order_of_inputs_does_not_matter(given_now: Situation, random: Random) -> None:
    def shuffled(entries: Mapping[str, _Value]) -> dict[str, _Value]:
        pairs = list(entries.items())
        random.shuffle(pairs)
        return dict(pairs)

    other = replace(given_now, decisions=shuffled(given_now.decisions), holds=shuffled(given_now.holds))
    assert plan(other) == plan(given_now)


@given(situations)
def test_no_hold_outlives_its_decision_its_lease_or_its_limits(given_now: Situation) -> None:
    made = plan(given_now)
    then = after(given_now, made)
    own = [each for each in then.holds.values() if each.hold.writer == then.writer and not each.is_by_hand]
    in_force = [each for each in own if each.ends_ms > NOW_MS and not then.is_released(each.principal)]

    assert len(in_force) <= given_now.limits.max_held * given_now.limits.enforce
    for each in in_force:
        found = given_now.decisions[each.principal]
        assert found.is_throttle
        assert each.ends_ms <= found.throttled_until_ms + 1_000
        assert each.hold.hold_ms <= MAX_HOLD_MS
        assert each.principal not in {*given_now.limits.never, "User:ANONYMOUS", "unknown"}
        assert given_now.quotas.find(each.principal).producer_ids_rate is not None
    by_others = {name: each for name, each in given_now.holds.items() if each.is_by_hand and each.ends_ms > NOW_MS}
    assert by_others.items() <= then.holds.items()
