"""Tests of the model of INIT_PRODUCER_ID (KIP-360), which tests/broker compares with a real broker, and its draft."""

from dataclasses import replace
from typing import Any

import pytest

from tests.kits.init_rules_kit import (
    MAX_EPOCH,
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


def test_while_a_transaction_ends_the_client_has_to_ask_again() -> None:
    assert ask(tx(), replace(STATE, transaction=Transaction.ENDING)) == ("CONCURRENT_TRANSACTIONS", -1, -1)


def test_an_open_transaction_is_aborted_under_an_epoch_that_nobody_gets() -> None:
    answer = init_producer_id(tx(), replace(STATE, transaction=Transaction.ONGOING), NEW)
    assert answer.state is not None
    assert (answer.error, answer.state.transaction) == ("CONCURRENT_TRANSACTIONS", Transaction.ENDING)
    ended = replace(answer.state, transaction=Transaction.NONE)
    assert ask(tx(), ended) == ("NONE", 70, 8)


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
