"""The decision table of INIT_PRODUCER_ID: KIP-360's draft, and merged Kafka where it differs."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kits.init_rules_kit import (
    MAX_EPOCH,
    NEW_PID,
    InitDecision,
    InitRequest,
    Outcome,
    Rules,
    Transaction,
    TransactionalState,
    classify,
    init_producer_id,
)

STATE = TransactionalState(70, producer_epoch=6, last_epoch=5, instance_epoch=3)
NEW = 9000


def tx(producer_id: int = -1, producer_epoch: int = -1) -> InitRequest:
    return InitRequest("pay", producer_id, producer_epoch)


def ask(
    request: InitRequest, state: TransactionalState | None = STATE, rules: Rules = Rules.MERGED
) -> tuple[str, int, int]:
    answer = init_producer_id(request, state, NEW, rules)
    return answer.error, answer.producer_id, answer.producer_epoch


@pytest.mark.parametrize("request_", [InitRequest(), InitRequest(None, 70, 6)])
def test_without_a_transactional_id_every_call_is_a_new_id(request_: InitRequest) -> None:
    answer = init_producer_id(request_, None, NEW)
    assert (answer.error, answer.producer_id, answer.producer_epoch, answer.state) == ("NONE", NEW, 0, None)


@pytest.mark.parametrize("request_", [tx(70, -1), tx(-1, 6), InitRequest(""), InitRequest(None, 70, -1)])
def test_half_an_identity_and_an_empty_transactional_id_are_no_request(request_: InitRequest) -> None:
    assert ask(request_) == ("INVALID_REQUEST", -1, -1)


@pytest.mark.parametrize("rules", Rules)
@pytest.mark.parametrize("request_", [tx(), tx(70, 6)])
def test_a_transactional_id_that_is_new_or_was_forgotten_gets_a_new_id_at_epoch_0(
    request_: InitRequest, rules: Rules
) -> None:
    assert ask(request_, None, rules) == ("NONE", NEW, 0)


@pytest.mark.parametrize("rules", Rules)
def test_a_new_instance_gets_the_same_id_and_the_next_epoch(rules: Rules) -> None:
    answer = init_producer_id(tx(), STATE, NEW, rules)
    assert (answer.error, answer.producer_id, answer.producer_epoch) == ("NONE", 70, 7)
    # It fences: the instance before can neither bump nor retry.
    assert init_producer_id(tx(70, 6), answer.state, NEW, rules).error in ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")


@pytest.mark.parametrize(
    ("epoch", "merged", "draft"),
    [
        (7, ("PRODUCER_FENCED", -1, -1), ("INVALID_PRODUCER_EPOCH", -1, -1)),  # ahead of the current one
        (6, ("NONE", 70, 7), ("NONE", 70, 7)),  # recovery
        (5, ("NONE", 70, 6), ("NONE", 70, 6)),  # retry of the last bump
        (4, ("PRODUCER_FENCED", -1, -1), ("NONE", 70, 6)),  # of an earlier one, same instance: they differ
        (3, ("PRODUCER_FENCED", -1, -1), ("NONE", 70, 6)),
        (2, ("PRODUCER_FENCED", -1, -1), ("INVALID_PRODUCER_EPOCH", -1, -1)),  # of the instance before
    ],
)
def test_the_table_of_the_kip_and_of_merged_kafka(
    epoch: int, merged: tuple[str, int, int], draft: tuple[str, int, int]
) -> None:
    assert ask(tx(70, epoch)) == merged
    assert ask(tx(70, epoch), rules=Rules.DRAFT) == draft


def test_a_bump_can_be_retried_until_another_instance_comes() -> None:
    bumped = init_producer_id(tx(70, 6), STATE, NEW)
    retried = init_producer_id(tx(70, 6), bumped.state, NEW)
    assert (retried.producer_epoch, retried.state) == (7, bumped.state)
    taken_over = init_producer_id(tx(), bumped.state, NEW)
    assert ask(tx(70, 6), taken_over.state) == ("PRODUCER_FENCED", -1, -1)


def test_an_id_that_is_not_its_own_is_fenced() -> None:
    assert ask(tx(71, 6)) == ("PRODUCER_FENCED", -1, -1)


def test_while_a_transaction_ends_the_client_has_to_ask_again() -> None:
    assert ask(tx(), replace(STATE, transaction=Transaction.ENDING)) == ("CONCURRENT_TRANSACTIONS", -1, -1)


def test_an_open_transaction_is_aborted_under_an_epoch_that_nobody_gets() -> None:
    answer = init_producer_id(tx(), replace(STATE, transaction=Transaction.ONGOING), NEW)
    assert answer.state is not None
    assert (answer.error, answer.state.transaction) == ("CONCURRENT_TRANSACTIONS", Transaction.ENDING)
    ended = replace(answer.state, transaction=Transaction.NONE)
    assert ask(tx(), ended) == ("NONE", 70, 8)


class TestExhaustedEpochs:
    LAST = replace(STATE, producer_epoch=MAX_EPOCH - 1)

    @pytest.mark.parametrize("request_", [tx(), tx(70, MAX_EPOCH - 1)])
    def test_a_new_id_begins_at_epoch_0(self, request_: InitRequest) -> None:
        assert ask(request_, self.LAST) == ("NONE", NEW, 0)

    def test_who_lost_the_answer_gets_it_again(self) -> None:
        rotated = init_producer_id(tx(70, MAX_EPOCH - 1), self.LAST, NEW)
        retried = init_producer_id(tx(70, MAX_EPOCH - 1), rotated.state, NEW + 1)
        assert (retried.error, retried.producer_id, retried.producer_epoch) == ("NONE", NEW, 0)

    def test_an_id_that_was_never_its_own_is_fenced_also_at_the_last_epoch(self) -> None:
        assert ask(tx(71, MAX_EPOCH - 1), self.LAST)[0] == "PRODUCER_FENCED"

    def test_a_zombie_of_the_id_before_is_fenced(self) -> None:
        rotated = init_producer_id(tx(), self.LAST, NEW)
        assert ask(tx(70, MAX_EPOCH - 1), rotated.state)[0] == "PRODUCER_FENCED"
        assert ask(tx(70, 5), rotated.state)[0] == "PRODUCER_FENCED"


@given(st.lists(st.tuples(st.integers(-1, 1), st.integers(-1, 4)), max_size=30))
def test_the_epoch_of_an_id_never_goes_back(steps: list[tuple[int, int]]) -> None:
    state: TransactionalState | None = None
    newest = (-1, -1)
    for behind, epoch in steps:
        known = state.producer_id if state else 0
        answer = init_producer_id(tx(known, epoch) if behind >= 0 and epoch >= 0 else tx(), state, NEW)
        if answer.error == "NONE":
            assert (answer.producer_id, answer.producer_epoch) >= newest
            newest = (answer.producer_id, answer.producer_epoch)
        state = answer.state


class TestOutcomes:
    @staticmethod
    def of(request: InitRequest, error: str = "NONE", pid: int = 70, epoch: int = 0, **before: Any) -> Outcome:
        known = {"asked_before": False, "known_before": False} | before
        return classify(request, InitDecision(error, pid, epoch), **known)

    @pytest.mark.parametrize(
        ("outcome", "arguments", "before"),
        [
            (Outcome.FIRST_ID, (InitRequest(),), {}),
            (Outcome.NEW_ID, (InitRequest(None, 60, 0),), {}),
            (Outcome.FIRST_ID, (tx(),), {}),
            (Outcome.NEW_ID, (tx(),), {"known_before": True}),
            (Outcome.NEW_INSTANCE, (tx(), "NONE", 70, 3), {"known_before": True}),
            (Outcome.EPOCH_BUMP, (tx(70, 2), "NONE", 70, 3), {}),
            (Outcome.BUMP_RETRY, (tx(70, 2), "NONE", 70, 3), {"asked_before": True}),
            (Outcome.NEW_ID, (tx(60, MAX_EPOCH - 1),), {}),
            (Outcome.BUMP_RETRY, (tx(60, MAX_EPOCH - 1),), {"asked_before": True}),
            (Outcome.FENCED, (tx(70, 2), "PRODUCER_FENCED", -1, -1), {}),
            (Outcome.FENCED, (tx(70, 2), "INVALID_PRODUCER_EPOCH", -1, -1), {}),
            (Outcome.UNKNOWN_PRODUCER, (tx(70, 2), "INVALID_PRODUCER_ID_MAPPING", -1, -1), {}),
            (Outcome.REFUSED, (tx(), "INVALID_TRANSACTION_TIMEOUT", -1, -1), {}),
            (Outcome.THROTTLED, (tx(), "THROTTLING_QUOTA_EXCEEDED", -1, -1), {}),
            (Outcome.BUSY, (tx(), "CONCURRENT_TRANSACTIONS", -1, -1), {}),
            (Outcome.OTHER_ERROR, (tx(), "KAFKA_STORAGE_ERROR", -1, -1), {}),
        ],
    )
    def test_each_is_told(self, outcome: Outcome, arguments: tuple[Any, ...], before: dict[str, Any]) -> None:
        assert self.of(*arguments, **before) is outcome

    @given(st.integers(0, 5), st.booleans())
    def test_an_epoch_is_never_a_new_producer_id(self, epoch: int, asked_before: bool) -> None:
        answer = init_producer_id(tx(70, epoch), STATE, NEW)
        outcome = classify(tx(70, epoch), answer, asked_before=asked_before, known_before=True)
        assert (outcome in NEW_PID) == (answer.error == "NONE" and answer.producer_id == NEW)
