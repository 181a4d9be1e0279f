from typing import Any

import pytest

from broker.enforcement.model import AlertRecord, EnforcementRecord, Lease, LeaseRecord, ReleaseOrder, Target
from broker.enforcement.store.tables import ACTIONS, action_row, records_of
from broker.kafka.quota_entity import QuotaEntity
from tables.schema.specs import TABLES

NOW_MS = 1_800_000_000_123
USER = Target("request_percentage", QuotaEntity("m"))
CLIENT = Target("request_percentage", QuotaEntity("m", "app"))
ADDRESS = Target("connection_creation_rate", QuotaEntity(ip="10.0.0.5"))
HOLD = Target("hold", QuotaEntity("m"))


def lease(target: Target, value: float | None, previous: float | None = None) -> LeaseRecord:
    kept = Lease("l", "User:m", target, NOW_MS + 60_000, "d", "in_force", NOW_MS, value, previous, 3)
    return LeaseRecord(NOW_MS, kept, "12 PIDs", "host/1")


RECORDS: list[EnforcementRecord] = [
    lease(USER, 0.01, 50.0),
    lease(USER, 0.01),
    lease(CLIENT, 0.01),
    lease(ADDRESS, 1.0, 0.0),
    lease(HOLD, None),
    ReleaseOrder(NOW_MS, "User:m", NOW_MS + 60_000, "released by order", "release"),
    ReleaseOrder(NOW_MS, None, NOW_MS + 60_000, "all released by order", "release"),
    AlertRecord(NOW_MS, "User:m", "a reason", "host/1"),
    AlertRecord(NOW_MS, None, "a reason", "host/1"),
]


def row(record: EnforcementRecord, number: int = 0) -> dict[str, Any]:
    """As a table returns it: with all columns."""
    return dict.fromkeys(TABLES[ACTIONS].schema.names) | action_row(record, number)


@pytest.mark.parametrize("record", RECORDS, ids=str)
def test_a_record_comes_back_as_it_was(record: EnforcementRecord) -> None:
    assert set(action_row(record, 0)) <= set(TABLES[ACTIONS].schema.names)
    assert records_of([row(record)]) == [record]


def test_a_hold_has_no_value_and_names_its_lever() -> None:
    found = action_row(lease(HOLD, None), 0)
    assert (found["lever"], found["new_value"], found["previous_value"]) == ("hold", None, None)
    assert (found["lease_revision"], found["entity_user"]) == (3, "m")


def test_an_order_is_no_lease() -> None:
    found = row(RECORDS[5])
    assert (found["state"], found["lease_id"], found["lever"]) == ("release", None, None)


def test_records_of_one_time_come_in_the_order_written() -> None:
    rows = [row(record, number) for number, record in enumerate(RECORDS)]
    assert records_of(reversed(rows)) == RECORDS


@pytest.mark.parametrize(
    ("record", "missing"),
    [
        *((RECORDS[0], name) for name in ("recorded_at", "state", "lease_id", "lease_revision", "principal", "lever")),
        *((RECORDS[0], name) for name in ("until", "decision_id", "entity_user")),
        (RECORDS[3], "entity_ip"),
        (RECORDS[5], "until"),
        (RECORDS[7], "recorded_at"),
    ],
)
def test_a_row_that_lacks_what_its_state_needs_is_passed_over(record: EnforcementRecord, missing: str) -> None:
    assert records_of([row(record) | {missing: None}, row(RECORDS[8])]) == [RECORDS[8]]
