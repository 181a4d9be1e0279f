"""The lines are those of Kafka 4.3.1 with kafka.request.logger at DEBUG, without fields that are not read."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import LogLineError
from broker.log.request_log import parse_request_log
from wire.records import ProduceFailure


def produce_line(client_id: str, *partitions: tuple[int, int], transactional_id: str | None = None) -> str:
    answers: list[dict[str, Any]] = [
        {"index": index, "errorCode": code, "baseOffset": -1} for index, code in partitions
    ]
    line = {
        "isForwarded": False,
        "requestHeader": {"requestApiKey": 0, "clientId": client_id, "requestApiKeyName": "PRODUCE"},
        "request": {"transactionalId": transactional_id, "acks": -1, "topicData": []},
        "response": {"responses": [{"name": "orders", "partitionResponses": answers}], "throttleTimeMs": 0},
        "connection": "127.0.0.1:55715-10.0.0.7:37808-2-2",
        "securityProtocol": "SASL_PLAINTEXT",
        "principal": "User:alice",
    }
    return "Completed request:" + json.dumps(line)


def test_each_partition_that_failed_is_one_record() -> None:
    records = parse_request_log(produce_line("app", (0, 47), (1, 0), (2, 10), transactional_id="tx"), 5, 3)

    assert records == [
        ProduceFailure(5, 3, "User:alice", "app", "10.0.0.7", "tx", "orders", 0, 47),
        ProduceFailure(5, 3, "User:alice", "app", "10.0.0.7", "tx", "orders", 2, 10),
    ]


@given(client_id=st.text(st.characters(exclude_categories=["Cs"])) | st.just('","principal":"User:bob'))
def test_no_client_id_changes_who_failed(client_id: str) -> None:
    (record,) = parse_request_log(produce_line(client_id, (0, 47)), 5, 3)

    assert isinstance(record, ProduceFailure)
    assert (record.principal, record.client_id) == ("User:alice", client_id)


def test_other_requests_and_other_messages_are_left_alone() -> None:
    assert parse_request_log(produce_line("app", (0, 0)), 5, 3) == []
    assert parse_request_log(produce_line("app", (0, 1)).replace('"PRODUCE"', '"FETCH"'), 5, 3) == []
    assert parse_request_log("Received request", 5, 3) == []


@pytest.mark.parametrize("cut", [20, 100, 300])
def test_a_cut_line_is_an_error_with_a_remedy(cut: int) -> None:
    with pytest.raises(LogLineError, match="request logger"):
        parse_request_log(produce_line("app", (0, 47))[:cut], 5, 3)


@pytest.mark.parametrize("field", ["other", "request"])
def test_a_deeply_nested_line_is_an_error_with_a_remedy(field: str) -> None:
    with pytest.raises(LogLineError, match="request logger"):
        parse_request_log(f'Completed request:{{"{field}":' + '{"q":' * 100_000, 5, 3)
