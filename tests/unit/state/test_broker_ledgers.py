"""Scope `broker`: a budget on each broker."""

import pytest

from quota.limits import UNLIMITED, Limit
from state.broker_ledgers import BrokerLedgers
from state.codec import BrokersState, encode_brokers
from state.errors import LedgerCodecError
from state.events import CHARGED, Deployment, Events, Outcome
from state.hashing import hash_pids
from tests.kits.ledger_kit import events_at

START_MS = 1_790_000_100_000
HOUR_MS = 3_600_000
TEN = Limit(10.0, "user")
DEPLOYMENT = Deployment(salt=5, scope="broker")


def produce(ledgers: BrokerLedgers, pids: list[int], broker_id: int, at_ms: int = 0) -> Outcome:
    return ledgers.process(events_at(START_MS + at_ms, pids, brokers=[broker_id] * len(pids)), TEN)


def test_each_broker_has_a_budget_and_decisions_of_its_own() -> None:
    ledgers = BrokerLedgers("User:a", DEPLOYMENT)

    first = produce(ledgers, list(range(20)), broker_id=1)
    second = produce(ledgers, list(range(100, 120)), broker_id=2)

    assert [(d.broker_id, d.action) for d in first.decisions + second.decisions] == [(1, "THROTTLE"), (2, "THROTTLE")]
    assert [row.admitted_pids for row in first.metrics + second.metrics] == [11, 11]
    assert first.decisions[0].decision_id != second.decisions[0].decision_id


def test_each_broker_names_the_clients_of_its_own_events() -> None:
    pids, brokers = list(range(26)), [1, 2] * 13
    clients = [("app", f"10.0.0.{broker}") for broker in brokers]

    outcome = BrokerLedgers("User:a", DEPLOYMENT).process(
        Events(pids, [START_MS] * 26, clients, [CHARGED] * 26, brokers), TEN
    )

    assert [(d.broker_id, d.evidence.addresses) for d in outcome.decisions] == [
        (1, {"10.0.0.1": 2}),
        (2, {"10.0.0.2": 2}),
    ]


def test_pids_that_move_with_leadership_are_not_charged_again() -> None:
    ledgers = BrokerLedgers("User:a", DEPLOYMENT)
    produce(ledgers, list(range(10)), broker_id=1)

    moved = produce(ledgers, list(range(10)), broker_id=2, at_ms=1000)

    assert (moved.metrics[0].admitted_pids, moved.metrics[0].tokens) == (0, 10.0)


def test_pids_that_move_with_leadership_pass_in_the_very_tick_that_refuses_others() -> None:
    ledgers = BrokerLedgers("User:a", DEPLOYMENT)
    moving = list(range(100, 105))
    produce(ledgers, moving, broker_id=2)

    outcome = produce(ledgers, [*range(20), *moving], broker_id=1)

    row = outcome.metrics[-1]
    assert (row.broker_id, row.admitted_pids, row.refused_pids) == (1, 11, 9)


def test_pids_that_are_hashed_already_are_those_of_their_broker() -> None:
    pids, brokers = [1, 2, 3, 4, 5], [1, 1, 2, 2, 1]
    columns = (pids, [START_MS] * 5, [("app", "10.0.0.7")] * 5, [CHARGED] * 5, brokers)

    hashed = BrokerLedgers("User:a", DEPLOYMENT)
    outcome = hashed.process(Events(*columns, hashes=hash_pids(pids, DEPLOYMENT.salt)), TEN)

    assert outcome == BrokerLedgers("User:a", DEPLOYMENT).process(Events(*columns), TEN)


def test_a_pid_that_the_other_broker_has_forgotten_is_new() -> None:
    ledgers = BrokerLedgers("User:a", DEPLOYMENT)
    produce(ledgers, [1], broker_id=1)

    outcome = produce(ledgers, [1], broker_id=2, at_ms=2 * HOUR_MS)

    assert outcome.metrics[0].admitted_pids == 1


def test_a_pid_refused_on_one_broker_is_not_known_to_the_other() -> None:
    ledgers = BrokerLedgers("User:a", DEPLOYMENT)
    produce(ledgers, list(range(20)), broker_id=1)

    assert produce(ledgers, [19], broker_id=2).metrics[0].admitted_pids == 1


def test_the_ledgers_read_back_as_they_were_written() -> None:
    ledgers = BrokerLedgers("User:a", DEPLOYMENT)
    produce(ledgers, list(range(20)), broker_id=1)
    produce(ledgers, list(range(5)), broker_id=2)

    stored = ledgers.to_bytes()

    assert BrokerLedgers("User:a", DEPLOYMENT, stored).to_bytes() == stored


@pytest.mark.parametrize("stored", [b"PQL\x01nothing", encode_brokers(BrokersState({1: b"damaged"}))])
def test_ledgers_that_cannot_be_read_are_refused(stored: bytes) -> None:
    with pytest.raises(LedgerCodecError):
        BrokerLedgers("User:a", DEPLOYMENT, stored)


def test_brokers_that_are_met_after_a_loss_learn_first() -> None:
    ledgers = BrokerLedgers("User:a", DEPLOYMENT)
    ledgers.learn_again(START_MS + HOUR_MS)

    outcome = produce(ledgers, list(range(50)), broker_id=3)

    assert (outcome.decisions, outcome.metrics[0].phase) == ((), "learning")


def test_the_learning_after_a_loss_is_stored_and_so_the_same_in_one_batch_and_in_two() -> None:
    at_once = BrokerLedgers("User:a", DEPLOYMENT)
    at_once.learn_again(START_MS + HOUR_MS)
    produce(at_once, [1], broker_id=1)
    in_two = BrokerLedgers("User:a", DEPLOYMENT, at_once.to_bytes())

    outcomes = [produce(ledgers, list(range(50)), broker_id=2) for ledgers in (at_once, in_two)]

    assert [(outcome.decisions, outcome.metrics[0].phase) for outcome in outcomes] == [((), "learning")] * 2
    assert at_once.to_bytes() == in_two.to_bytes()


def test_what_another_broker_remembers_is_asked_as_of_the_ledgers_own_time() -> None:
    ledgers = BrokerLedgers("User:a", DEPLOYMENT)
    produce(ledgers, [7], broker_id=2)
    produce(ledgers, [1], broker_id=1, at_ms=75 * 60_000)

    # Broker 2 remembered it a minute earlier, at the event's time; a minute behind the clock counts as now.
    outcome = produce(ledgers, [7], broker_id=1, at_ms=74 * 60_000)

    # Counted in the interval of that time, beside PID 1.
    assert outcome.metrics[-1].admitted_pids == 2


def test_a_quota_that_is_removed_ends_the_throttles_of_brokers_without_an_event_as_well() -> None:
    ledgers = BrokerLedgers("User:alice", Deployment(scope="broker"))
    ledgers.process(events_at(0, range(10), brokers=[2] * 10), Limit(3.0, "user"))

    removed = ledgers.process(events_at(5_000, [99], brokers=[1]), UNLIMITED)
    again = ledgers.process(events_at(6_000, [98], brokers=[1]), UNLIMITED)

    (release,) = removed.decisions
    assert (release.broker_id, release.action, release.reason) == (2, "RELEASE", "quota_changed")
    assert release.decided_at_ms == 5_000
    assert again.decisions == ()


def test_a_changed_quota_reaches_silent_brokers_whose_throttle_is_in_force_and_no_other() -> None:
    ledgers = BrokerLedgers("User:a", DEPLOYMENT)
    for broker_id, at_ms in ((1, 0), (3, HOUR_MS), (2, HOUR_MS)):
        produce(ledgers, list(range(100 * broker_id, 100 * broker_id + 30)), broker_id, at_ms)

    changed = ledgers.change_quota(UNLIMITED, START_MS + HOUR_MS + 5_000)

    assert changed is not None
    assert [(each.broker_id, each.reason) for each in changed.decisions] == [(2, "quota_changed"), (3, "quota_changed")]
    assert ledgers.throttled_until_ms() == START_MS + 360_000, "of broker 1, whose release is still to come"


def test_a_quota_that_is_raised_ends_throttles_at_the_principals_first_event_wherever_batches_are_cut() -> None:
    def throttled_on_broker_2() -> BrokerLedgers:
        ledgers = BrokerLedgers("User:a", DEPLOYMENT)
        produce(ledgers, list(range(30)), broker_id=2)
        return ledgers

    raised, times = Limit(20.0, "user"), [START_MS + 5_000, START_MS + 30_000]
    at_once, in_two = throttled_on_broker_2(), throttled_on_broker_2()

    both = Events([99, 98], times, [("app", "")] * 2, [CHARGED] * 2, [1, 2])
    together = at_once.process(both, raised).decisions
    parts = [events_at(times[0], [99], brokers=[1]), events_at(times[1], [98], brokers=[2])]
    apart = [decision for part in parts for decision in in_two.process(part, raised).decisions]

    assert [(each.broker_id, each.reason, each.decided_at_ms - START_MS) for each in together] == [
        (2, "quota_changed", 5_000)
    ]
    assert [each.throttled_until_ms for each in together] == [each.throttled_until_ms for each in apart]
    assert at_once.to_bytes() == in_two.to_bytes()
