"""The views of requests for producer ids, held to a pure function."""

import itertools
from pathlib import Path

from tables.query.sql_query import query
from tests.kits.init_rules_kit import NEW_PID, InitDecision, InitRequest, classify
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


ERRORS = (
    "NONE",
    "PRODUCER_FENCED",
    "INVALID_PRODUCER_EPOCH",
    "UNKNOWN_PRODUCER_ID",
    "INVALID_PRODUCER_ID_MAPPING",
    "CLUSTER_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "INVALID_REQUEST",
    "INVALID_TRANSACTION_TIMEOUT",
    "UNSUPPORTED_VERSION",
    "THROTTLING_QUOTA_EXCEEDED",
    "CONCURRENT_TRANSACTIONS",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "REQUEST_TIMED_OUT",
    "KAFKA_STORAGE_ERROR",
)


def test_the_view_classifies_as_the_pure_function_does(tmp_path: Path) -> None:
    rows, expected = [], []
    combinations = itertools.product((None, "tx"), ((-1, -1), (7, 3)), ((7, 0), (7, 4), (9, 0)), (0, 1), ERRORS)
    for number, (transactional, asked, answered, before, error) in enumerate(combinations):
        # Each is a client of its own.
        name = transactional and f"tx-{number}"
        result = answered if error == "NONE" else (-1, -1)
        if name is None and error == "NONE":
            result = (10_000 + number, 0)
        row = init(
            ago(100),
            result[0],
            transactional_id=name,
            producer_id=asked[0],
            producer_epoch=asked[1],
            result_producer_epoch=result[1],
            error=error,
            client_id=f"client-{number}",
        )
        if before and name and error == "NONE":
            rows.append(row | {"answered_at": ago(200)})
        rows.append(row)
        was = bool(before and name and error == "NONE")
        outcome = classify(InitRequest(name, *asked), InitDecision(error, *result), asked_before=was, known_before=was)
        expected.append((f"client-{number}", outcome.value, outcome in NEW_PID))
    append_kip_tables(tmp_path, inits=rows)

    everything = query(str(tmp_path), "TABLE classified_inits", now()).records()
    newest = [row for row in everything if row["answered_at"] == ago(100)]
    found = [(row["client_id"], row["outcome"], row["is_new_pid"]) for row in newest]

    assert sorted(found) == sorted(expected)
