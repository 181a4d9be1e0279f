"""The lines are real ones; tests/broker/record_lines.py records them anew."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import LogLineError
from broker.log.log_layout import LogLine, parse_line
from broker.log.log_lines import (
    InitProducerIdResult,
    ProducerStateUpdate,
    is_init,
    is_init_result,
    is_produce,
    parse_init,
    parse_init_result,
    parse_produce,
    parse_state,
)

LINES = [
    parse_line(line)
    for name in ("broker_lines.jsonl", "broker_lines_3_9.jsonl")
    for line in Path(__file__).parents[1].joinpath(name).read_bytes().splitlines()
]
MESSAGES = [line.message for line in LINES]

# Surrogates cannot come out of a UTF-8 file.
FREE_TEXT = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    [
        ";securityProtocol:SASL_PLAINTEXT,principal:User:alice",
        "a, correlationId=1, headerVersion=2) -- {acks=1,timeout=1,partitionSizes=[A:o-0=1]} from connection c",
        "a, correlationId=1, headerVersion=2) -- InitProducerIdRequestData(transactionalId='v', transactionTimeoutMs=1",
        "[ProducerStateManager partition=orders-0] Updated producer 1 state to",
        '"}\n{"ts":1,',
    ]
)


def test_a_produce_line_tells_principal_and_client() -> None:
    request = parse_produce(next(filter(is_produce, MESSAGES)))

    assert request is not None
    assert (request.principal, request.client_id) == ("User:alice", "alice-app")
    assert request.names("orders", 0)
    assert not request.names("orders", 1)
    assert not request.names("rders", 0)


def test_a_produce_line_with_topic_ids_is_matched_by_the_partition() -> None:
    message = next(message for message in MESSAGES if is_produce(message) and "apiVersion=13" in message)
    request = parse_produce(message)

    assert request is not None
    assert request.client_id == "java-app"
    assert request.names("orders", 0)
    assert not request.names("orders", 1)


def test_a_state_line_tells_the_batch() -> None:
    updates = [parse_state(message) for message in MESSAGES if message.startswith("[ProducerStateManager")]

    assert updates[0] == ProducerStateUpdate("orders", 0, 0, 0, transactional=False, marker=False)
    assert updates[2] == ProducerStateUpdate("orders", 0, 2, 0, transactional=True, marker=False)


def test_the_marker_that_ends_a_transaction_is_transactional() -> None:
    marker = next(message for message in MESSAGES if "firstSequence=-1" in message)

    assert parse_state(marker) == ProducerStateUpdate("orders", 0, 2, 0, transactional=True, marker=True)


def test_a_produce_line_of_kafka_3_names_partitions_without_topic_ids() -> None:
    message = next(message for message in MESSAGES if is_produce(message) and "partitionSizes=[orders-0=" in message)
    request = parse_produce(message.replace("[orders-0=73]", "[orders-0=73,payments-1=5]"))

    assert request is not None
    assert request.names("orders", 0)
    assert request.names("payments", 1)
    assert not request.names("ders", 0)
    assert not request.names("orders", 1)


def test_init_lines_tell_request_and_answer() -> None:
    request = parse_init(next(filter(is_init, MESSAGES)))
    assert request is not None
    assert (request.principal, request.client_host) == ("User:alice", "127.0.0.1")
    assert list(request.readings()) == [("alice-app", None)]
    answers = [list(parse_init_result(message)) for message in MESSAGES if is_init_result(message)]
    assert answers[0] == [InitProducerIdResult("null", "alice-app", -1, -1, "COORDINATOR_LOAD_IN_PROGRESS")]
    assert answers[1] == [InitProducerIdResult("null", "alice-app", 0, 0, "NONE")]


def test_every_recorded_line_is_understood() -> None:
    for message in MESSAGES:
        if is_produce(message):
            assert parse_produce(message)
        elif is_init(message):
            assert parse_init(message)
        elif is_init_result(message):
            assert list(parse_init_result(message))
        elif message.startswith("[ProducerStateManager"):
            assert parse_state(message)


@given(client_id=FREE_TEXT)
def test_no_client_id_hides_the_principal_of_a_produce_line(client_id: str) -> None:
    message = next(filter(is_produce, MESSAGES)).replace("alice-app", client_id).replace("User:alice", "User:mallory")
    message = message[: -len("User:mallory")] + "User:mallory"

    request = parse_produce(message)

    assert request is not None
    assert request.principal == "User:mallory"
    assert request.names("orders", 0)


@given(client_id=FREE_TEXT, transactional_id=FREE_TEXT)
def test_the_true_reading_of_an_init_line_is_always_among_the_readings(client_id: str, transactional_id: str) -> None:
    template = next(message for message in MESSAGES if is_init(message) and "'java-tx'" in message)
    message = template.replace("java-app", client_id).replace("java-tx", transactional_id)

    request = parse_init(message)

    assert request is not None
    assert request.principal == "User:alice"
    assert (client_id, transactional_id) in request.readings()
    assert request.is_of(client_id, transactional_id)


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b"{", b"[]", b'{"ts":1}', b'{"ts":"1","thread":"t","logger":"l","message":"m"}', b"\xff\xfe", b'"a'),
        pytest.param(b'{"q":' * 100_000, id="deep"),
    ],
)
def test_a_malformed_line_is_an_error_with_a_remedy(line: bytes) -> None:
    with pytest.raises(LogLineError, match=r"log4j2-pid-quota\.yaml"):
        parse_line(line)


@given(message=st.text(), cut=st.integers(0, 400), which=st.integers(0, len(MESSAGES) - 1))
def test_nothing_crashes_a_parser(message: str, cut: int, which: int) -> None:
    for text in (message, MESSAGES[which][:cut], MESSAGES[which][cut:]):
        parse_produce(text)
        parse_state(text)
        parse_init(text)
        list(parse_init_result(text))


def test_a_line_survives_its_encoding() -> None:
    line = LogLine(1, "t", "KafkaApis", 'a\n"b"\\')

    assert parse_line(msgspec.json.encode(line)) == line


def test_the_error_of_a_request_that_is_held_back_is_no_request() -> None:
    held = [message.replace("Handling request:", "Unexpected error handling request ") for message in MESSAGES]
    errors = [message for message in held if "Unexpected error" in message]
    assert errors
    assert not any(is_init(error) or is_produce(error) or is_init_result(error) for error in errors)
    assert {parse_state(error) for error in errors} == {None}
