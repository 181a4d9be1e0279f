import json

import pytest

from broker.attribution.pending_inits import MAX_AGE_MS, MAX_BYTES, PendingInits
from broker.log.log_lines import InitProducerIdRequest, parse_init


def request(user: str, transactional_id: str | None, client_id: str = "app") -> InitProducerIdRequest:
    of_id = "null" if transactional_id is None else f"'{transactional_id}'"
    parsed = parse_init(
        f"[KafkaApi-1] Handling request:RequestHeader(apiKey=INIT_PRODUCER_ID, apiVersion=1, clientId={client_id}, "
        f"correlationId=7, headerVersion=2) -- InitProducerIdRequestData(transactionalId={of_id}, "
        f"transactionTimeoutMs=1, producerId=-1, producerEpoch=-1) from connection 1:1-2:2-3;securityProtocol:SSL,"
        f"principal:User:{user}"
    )
    assert parsed is not None
    return parsed


def answer(transactional_id: str | None, client_id: str = "app") -> str:
    return (
        f"[KafkaApi-1] Completed {transactional_id or 'null'}'s InitProducerIdRequest with result "
        f"InitProducerIdResult(5,0,NONE) from client {client_id}."
    )


def owners(inits: PendingInits, transactional_id: str | None, at_ms: int = 0, thread: bytes = b"t") -> list[str]:
    return [each.request.principal for each in inits.answered(thread, at_ms, answer(transactional_id))]


def test_an_answer_that_fits_requests_of_two_principals_is_nobodys() -> None:
    inits = PendingInits()
    inits.asked(b"1", 0, b"", request("nobody", "tx"))
    inits.asked(b"2", 0, b"", request("mallory", "tx"))

    assert owners(inits, "tx") == []


def test_a_request_without_an_answer_is_forgotten_by_the_time_of_the_log() -> None:
    inits = PendingInits()
    inits.asked(b"1", 0, b"", request("nobody", "tx"))
    inits.asked(b"2", MAX_AGE_MS + 1, b"", request("mallory", "tx"))
    inits.asked(b"3", 2 * MAX_AGE_MS + 2, b"", request("mallory", "tx"))

    assert owners(inits, "tx", 2 * MAX_AGE_MS + 2) == ["User:mallory"]


def test_a_clock_that_leaps_over_a_minute_hands_no_answer_to_the_next_who_asks() -> None:
    inits = PendingInits()
    inits.asked(b"1", 0, b"", request("victim", "tx"))
    inits.asked(b"2", MAX_AGE_MS + 1, b"", request("mallory", "tx"))

    assert owners(inits, "tx", MAX_AGE_MS + 1) == []


def test_one_who_asks_again_after_a_minute_is_answered() -> None:
    inits = PendingInits()
    inits.asked(b"1", 0, b"", request("alice", "tx"))
    inits.asked(b"2", MAX_AGE_MS + 1, b"", request("alice", "tx"))

    assert owners(inits, "tx", MAX_AGE_MS + 1) == ["User:alice"]


@pytest.mark.parametrize("others", [("victim",), ("victim", "mallory"), ("mallory", "victim")])
@pytest.mark.parametrize("client_id", ["app", ", correlationId=1, headerVersion=2) -- InitProducerIdRequestData("])
def test_a_flood_that_drops_a_request_hands_its_answer_to_nobody(others: tuple[str, ...], client_id: str) -> None:
    inits = PendingInits()
    for user in others:
        inits.asked(b"1", 0, b"", request(user, "tx", client_id))
    for number in range(600):
        inits.asked(b"2", 0, b"", request("mallory", f"{number}" + "n" * 32_000))
    inits.asked(b"3", 0, b"", request("mallory", "tx", client_id))

    assert inits.answered(b"t", 0, answer("tx", client_id)) == []


def test_crafted_texts_push_no_request_out_so_that_its_answer_goes_to_another() -> None:
    inits, crafted = PendingInits(), ", correlationId=1, headerVersion=2) -- InitProducerIdRequestData("
    inits.asked(b"1", 0, b"", request("victim", "tx", crafted))
    for number in range(20):
        inits.asked(b"2", 0, b"", request("mallory", f"{number}", crafted))
    inits.asked(b"3", 0, b"", request("mallory", "tx", crafted))

    assert inits.answered(b"t", 0, answer("tx", crafted)) == []


def test_while_requests_may_be_missing_answers_are_nobodys_also_with_a_clock_that_is_set_back() -> None:
    inits = PendingInits()
    inits.forget_all(10_000_000)
    seen = []
    for at_ms in (0, MAX_AGE_MS - 1, MAX_AGE_MS):
        inits.asked(b"1", at_ms, b"", request("alice", "tx"))
        seen.append(owners(inits, "tx", at_ms))

    assert seen == [[], [], ["User:alice"]]


def test_requests_of_one_principal_are_answered_one_by_one() -> None:
    inits = PendingInits()
    for _ in range(2):
        inits.asked(b"1", 0, b"", request("alice", "tx"))

    assert [owners(inits, "tx") for _ in range(3)] == [["User:alice"], ["User:alice"], []]


def test_an_answer_without_a_transactional_id_is_that_of_its_thread() -> None:
    inits = PendingInits()
    inits.asked(b"1", 0, b"", request("alice", None))
    inits.asked(b"2", 0, b"", request("mallory", None))
    inits.abandon(b"2")

    assert owners(inits, None, thread=b"2") == []
    assert owners(inits, None, thread=b"1") == ["User:alice"]


def test_where_lines_are_missing_all_requests_are_forgotten() -> None:
    inits = PendingInits()
    inits.asked(b"1", 0, b"", request("victim", "tx"))
    inits.forget_all()

    assert owners(inits, "tx") == []


@pytest.mark.parametrize(
    "text", ["n" * 32_000, ", correlationId=1, headerVersion=2) -- InitProducerIdRequestData(transactionalId='" * 300]
)
def test_a_flood_of_denied_requests_has_a_budget_and_leaves_nothing_big_to_be_saved(text: str) -> None:
    inits = PendingInits()
    line = json.dumps(text).encode()
    for number in range(600):
        inits.asked(b"%d" % (number % 8), 0, line, request("mallory", "tx", text))
    inits.asked(b"9", 0, b"short", request("alice", "own"))

    assert inits.held_bytes <= MAX_BYTES
    assert sum(map(len, inits.lines())) < 20_000
    assert owners(inits, "own") == ["User:alice"]
