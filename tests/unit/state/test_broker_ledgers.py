"""Scope `broker`: a budget on each broker."""

import pytest

from quota.limits import UNLIMITED, Limit
from state.broker_ledgers import BrokerLedgers
from state.codec import BrokersState, encode_brokers
from state.errors import LedgerCodecError
from state.events import Deployment, Outcome
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


def test_a_pid_refused_on_one_broker_is_not_known_to_the_other() -> None:
    ledgers = BrokerLedgers("User:a", DEPLOYMENT)
    produce(ledgers, list(range(20)), broker_id=1)

    assert produce(ledgers, [19], broker_id=2).metrics[0].admitted_pids == 1


@pytest.mark.parametrize("stored", [b"PQL\x01nothing", encode_brokers(BrokersState({1: b"damaged"}))])
def test_ledgers_that_cannot_be_read_are_refused(stored: bytes) -> None:
    with pytest.raises(LedgerCodecError):
        BrokerLedgers("User:a", DEPLOYMENT, stored)


def test_what_another_broker_remembers_is_asked_as_of_the_ledgers_own_time() -> None:
    ledgers = BrokerLedgers("User:a", DEPLOYMENT)
    produce(ledgers, [7], broker_id=2)
    produce(ledgers, [1], broker_id=1, at_ms=75 * 60_000)

    # Broker 2 remembered it a minute earlier, at the event's time; a minute behind the clock counts as now.
    outcome = produce(ledgers, [7], broker_id=1, at_ms=74 * 60_000)

    # Counted in the interval of that time, beside PID 1.
    assert outcome.metrics[-1].admitted_pids == 2


def test_a_changed_quota_reaches_silent_brokers_whose_throttle_is_in_force_and_no_other() -> None:
    ledgers = BrokerLedgers("User:a", DEPLOYMENT)
    for broker_id, at_ms in ((1, 0), (3, HOUR_MS), (2, HOUR_MS)):
        produce(ledgers, list(range(100 * broker_id, 100 * broker_id + 30)), broker_id, at_ms)

    changed = ledgers.change_quota(UNLIMITED, START_MS + HOUR_MS + 5_000)

    assert changed is not None
    assert [(each.broker_id, each.reason) for each in changed.decisions] == [(2, "quota_changed"), (3, "quota_changed")]
    assert ledgers.throttled_until_ms() == START_MS + 360_000, "of broker 1, whose release is still to come"
