"""Throttles of silent principals under a quota that was raised or removed."""

from typing import Any

import pytest

from streaming.checkpoint.batch_quotas import Quota, Quotas
from streaming.commit.quota_changes import shortened, without_those_of
from tables.times import to_time

DECIDED_MS = 1_790_000_000_000
THROTTLE: dict[str, Any] = {
    "decision_id": "d1",
    "principal": "User:m",
    "broker_id": None,
    "action": "THROTTLE",
    "decided_at": to_time(DECIDED_MS),
    "throttle_time_ms": 180_000,
    "throttled_until": to_time(DECIDED_MS + 180_000),
    "tokens": -1.0,
    "rate": 2.0,
    "quota": 20.0,
    "refused_pids": 7,
    "sample_pids": [1],
    "client_ids": [("c", 7)],
    "addresses": None,
    "batch_id": 3,
}


def after(rate: float | None, passed_ms: int, *rows: dict[str, Any]) -> list[tuple[str, int, float | None]]:
    quotas = Quotas({} if rate is None else {"m": Quota(rate, 5)})
    found = shortened(rows or (THROTTLE,), quotas, DECIDED_MS + passed_ms)
    assert {row["reason"] for row in found} <= {"quota_changed"}
    return [(row["action"], row["throttled_until"] - DECIDED_MS, row["tokens"]) for row in found]


@pytest.mark.parametrize(
    ("rate", "passed_ms", "found"),
    [
        (40.0, 0, [("THROTTLE", 90_000, -1.0)]),
        (40.0, 90_000, [("THROTTLE", 135_000, -0.5)]),
        (None, 90_000, [("RELEASE", 90_000, None)]),
        (20.0, 90_000, []),
        (10.0, 90_000, []),
        (40.0, 180_000, []),
    ],
)
def test_it_ends_when_tokens_reach_0_under_a_raised_quota_and_at_once_without_one(
    rate: float | None, passed_ms: int, found: list[tuple[str, int, float | None]]
) -> None:
    assert after(rate, passed_ms) == found


def test_the_minimum_of_a_throttle_does_not_outlast_a_raised_quota() -> None:
    short = THROTTLE | {"throttle_time_ms": 1_000, "throttled_until": to_time(DECIDED_MS + 60_000)}
    assert after(40.0, 2_000, short) == [("RELEASE", 2_000, 0.0)]
    # When only the quota of somebody else has changed, or when it is lowered.
    assert after(20.0, 2_000, short) == after(10.0, 2_000, short) == []


def test_only_the_newest_decision_of_a_principal_and_broker_counts() -> None:
    released = THROTTLE | {"action": "RELEASE", "decided_at": to_time(DECIDED_MS + 1)}
    assert after(40.0, 2, released, THROTTLE) == []
    on_broker = THROTTLE | {"broker_id": 1}
    assert len(after(40.0, 2, released, THROTTLE, on_broker)) == 1


def test_the_evidence_stays_and_a_repeated_batch_gives_the_same_row() -> None:
    quotas = Quotas({"m": Quota(40.0, 5)})
    first, again = (shortened([THROTTLE], quotas, DECIDED_MS + 9) for _ in range(2))
    assert first == again
    assert (first[0]["client_ids"], first[0]["addresses"], first[0]["refused_pids"]) == ({"c": 7}, {}, 7)
    assert first[0]["decision_id"] != "d1"


def test_a_ledger_that_decided_in_this_batch_decides_alone() -> None:
    rows = shortened([THROTTLE], Quotas(), DECIDED_MS)
    assert without_those_of(rows, [{"principal": "User:m", "broker_id": 1}]) == rows
    assert without_those_of(rows, [{"principal": "User:m", "broker_id": None}]) == []
