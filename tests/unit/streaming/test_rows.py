"""Rows on their way from the operator to the tables."""

from datetime import datetime, timezone

from streaming.operator.rows import table_rows

NOON = datetime(2026, 1, 15, 12, 0, 0, 1000, tzinfo=timezone.utc)
NOON_MS = int(NOON.timestamp() * 1000)


def test_a_body_becomes_a_row_of_its_table_with_times_maps_lists_and_bytes() -> None:
    decision = {"decision_id": "d", "decided_at": NOON_MS, "sample_pids": [1, 2], "client_ids": {"app": 3}, "rate": 1}
    (row,) = table_rows([decision], "throttle_decisions", 7).to_pylist()

    assert (row["decided_at"], row["sample_pids"], row["client_ids"]) == (NOON, [1, 2], [("app", 3)])
    assert (row["rate"], row["batch_id"], row["throttled_until"]) == (1.0, 7, None)
    (bad,) = table_rows([{"value": b"\xff\x00", "record_timestamp": NOON_MS}], "quarantined_events", 8).to_pylist()
    assert (bad["value"], bad["record_timestamp"]) == (b"\xff\x00", NOON)
