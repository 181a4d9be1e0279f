"""The views of requests for producer ids."""

from pathlib import Path
from typing import Any

import pytest

from tables.query.sql_query import query
from tests.kits.kip_kit import ago, append_kip_tables, failed_init, init, now


def outcomes(tables: Path) -> list[str]:
    rows = query(str(tables), "SELECT outcome FROM classified_inits ORDER BY answered_at", now()).rows
    return [outcome for (outcome,) in rows]


def test_outcomes_of_requests_are_counted_per_client(tmp_path: Path) -> None:
    append_kip_tables(
        tmp_path,
        inits=[
            init(ago(50), 7),
            init(ago(40), 8, client_host="10.0.0.2"),
            failed_init(ago(30), "PRODUCER_FENCED", transactional_id="pay", producer_id=5, producer_epoch=1),
            init(ago(20), 9, principal="User:bob"),
            init(ago(90_000), 1),
        ],
    )
    select = "SELECT principal, outcome, answers, new_pids, hosts FROM init_outcomes ORDER BY answers DESC, principal"
    assert query(str(tmp_path), select, now()).rows == (
        ("User:alice", "first id", 2, 2, 2),
        ("User:alice", "fenced", 1, 0, 1),
        ("User:bob", "first id", 1, 1, 1),
    )


def test_the_retry_of_a_bump_is_recognised_by_the_previous_request(tmp_path: Path) -> None:
    bump = {"transactional_id": "pay", "producer_id": 7, "producer_epoch": 0, "result_producer_epoch": 1}
    append_kip_tables(
        tmp_path,
        inits=[
            init(ago(50), 7, transactional_id="pay"),
            init(ago(40), 7, **bump),
            init(ago(39), 7, **bump),
            init(ago(38), 7, **bump),
            init(ago(30), 7, transactional_id="pay", result_producer_epoch=2),
            init(ago(20), 80, transactional_id="pay"),
            init(ago(10), 7, **bump | {"transactional_id": "other"}),
        ],
    )
    assert outcomes(tmp_path) == [
        "first id",
        "epoch bump",
        "bump retry",
        "bump retry",
        "new instance",
        "expired id",
        "epoch bump",
    ]


def test_an_id_that_a_commit_handed_out_is_no_new_one_of_the_next_instance(tmp_path: Path) -> None:
    pay = {"transactional_id": "pay"}
    append_kip_tables(
        tmp_path,
        inits=[
            init(ago(50), 7, **pay),
            # A commit handed out 80 in between, as the epochs of 7 ran out.
            init(ago(20), 80, **pay, result_producer_epoch=3),
            init(ago(10), 80, **pay, producer_id=80, producer_epoch=3, result_producer_epoch=4),
        ],
    )
    rows = query(str(tmp_path), "SELECT outcome, is_new_pid FROM classified_inits ORDER BY answered_at", now()).rows
    assert [tuple(row) for row in rows] == [("first id", True), ("new instance", False), ("epoch bump", False)]


def test_an_answer_that_is_written_twice_counts_once_and_errors_at_one_time_count_each(tmp_path: Path) -> None:
    fenced = failed_init(ago(20), "PRODUCER_FENCED", transactional_id="pay", producer_id=5, producer_epoch=1)
    append_kip_tables(tmp_path, inits=[init(ago(50), 7), init(ago(50), 7, batch_id=1), fenced, fenced])
    assert outcomes(tmp_path) == ["first id", "fenced", "fenced"]


def test_an_id_after_an_error_alone_is_the_first_one(tmp_path: Path) -> None:
    append_kip_tables(
        tmp_path,
        inits=[
            failed_init(ago(50), "COORDINATOR_LOAD_IN_PROGRESS", transactional_id="pay"),
            init(ago(40), 7, transactional_id="pay"),
        ],
    )
    assert outcomes(tmp_path) == ["busy", "first id"]


OWN = {"producer_id": 7, "producer_epoch": 3}
ANSWERS: list[tuple[str, bool, dict[str, Any]]] = [
    ("first id", True, {}),
    ("new id", True, OWN),
    ("first id", True, {"transactional_id": "tx"}),
    ("new instance", False, {"transactional_id": "tx", "result_producer_epoch": 4}),
    ("fence", False, {"transactional_id": "tx", "result_producer_epoch": 4, "client_id": "connector-adminclient-1"}),
    ("epoch bump", False, {"transactional_id": "tx", "result_producer_epoch": 4, **OWN}),
    ("expired id", True, {"transactional_id": "tx", "result_producer_id": 9, **OWN}),
    ("new id", True, {"transactional_id": "tx", "result_producer_id": 9, "producer_id": 7, "producer_epoch": 32766}),
    *(
        (outcome, False, {"error": error, "result_producer_id": -1, "result_producer_epoch": -1, **known})
        for outcome, errors in {
            "fenced": ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"),
            "unknown producer": ("UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_ID_MAPPING"),
            "refused": (
                "CLUSTER_AUTHORIZATION_FAILED",
                "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
                "INVALID_REQUEST",
                "INVALID_TRANSACTION_TIMEOUT",
                "UNSUPPORTED_VERSION",
            ),
            "throttled": ("THROTTLING_QUOTA_EXCEEDED",),
            "busy": (
                "CONCURRENT_TRANSACTIONS",
                "COORDINATOR_LOAD_IN_PROGRESS",
                "COORDINATOR_NOT_AVAILABLE",
                "NOT_COORDINATOR",
                "REQUEST_TIMED_OUT",
            ),
            "other error": ("KAFKA_STORAGE_ERROR",),
        }.items()
        for error in errors
        for known in ({}, {"transactional_id": "tx", **OWN})
    ),
]


@pytest.mark.parametrize(("outcome", "is_new_pid", "answer"), ANSWERS)
def test_an_answer_has_one_outcome_and_only_a_new_id_is_one(
    tmp_path: Path, outcome: str, is_new_pid: bool, answer: dict[str, Any]
) -> None:
    append_kip_tables(tmp_path, inits=[init(ago(9), 7) | answer])
    rows = query(str(tmp_path), "SELECT outcome, is_new_pid FROM classified_inits", now()).rows
    assert [tuple(row) for row in rows] == [(outcome, is_new_pid)]
