"""The order of the steps in which the driver runs a batch and writes its rows."""

from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest

from quota.limits import Limit, Quotas
from streaming.batch.context import BatchContext
from streaming.checkpoint.commit_metadata import CommitMetadata
from streaming.commit import commit
from streaming.operator.rows import Rows, pack

QUOTAS = Quotas({}, Limit(100, "default"))
STARTS: dict[str, dict[int, int]] = {"events": {0: 10}}
ENDS: dict[str, dict[int, int]] = {"events": {0: 17}}
LOST = {"reason": "records were lost"}


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Mock:
    steps = Mock()
    for name in ("begin_batch", "end_batch"):
        monkeypatch.setattr(commit, name, getattr(steps, name))
    monkeypatch.setattr(commit, "table_rows", lambda bodies, *_: bodies)
    monkeypatch.setattr(commit, "load_table_ids", lambda _: {})
    steps.begin_batch.return_value = BatchContext(5, STARTS, ENDS, QUOTAS)
    steps.watch.rows.return_value = []
    return steps


def run(steps: Mock, rows: Rows) -> None:
    steps.run.toArrow.return_value = pa.table({"packed": pack(rows)["packed"]})
    commit.Commit(steps.sink, "id", "checkpoint", "tables", steps.watch, steps.observe, steps.enforce)(steps.run, 3)


def written(steps: Mock) -> list[tuple[str, Any]]:
    return [(call.args[2], call.args[1]) for call in steps.sink.append.mock_calls]


def test_a_batch_is_checked_begun_run_checked_again_written_and_ended_in_this_order(steps: Mock) -> None:
    steps.watch.rows.return_value = [LOST]
    run(steps, [("producer_id_metrics", "row"), ("tracked", 7), ("throttle_decisions", "decision")])

    order = ["watch.check", "begin_batch", "run.toArrow", "watch.check", "watch.rows"]
    order += ["sink.append", "enforce", "sink.append", "sink.append", "observe", "end_batch"]
    assert [name for name, *_ in steps.mock_calls] == order
    rows = [("throttle_decisions", ["decision"]), ("producer_id_metrics", ["row"]), ("quarantined_events", [LOST])]
    assert written(steps) == rows
    assert steps.end_batch.call_args.args[1:] == (3, steps.begin_batch.return_value, dict(rows) | {"tracked": [7]})


def test_records_that_can_t_be_read_are_kept_beside_the_report_of_lost_ones(steps: Mock) -> None:
    steps.watch.rows.return_value = [LOST]
    run(steps, [("quarantined_events", "unreadable")])
    assert written(steps) == [("quarantined_events", ["unreadable", LOST])]


def test_holds_learn_of_ledgers_and_quotas_from_a_batch_without_decisions(steps: Mock) -> None:
    run(steps, [("producer_id_metrics", "row")])
    (batch,) = steps.enforce.call_args.args
    assert (batch.batch_id, batch.rows, batch.quotas) == (3, {"producer_id_metrics": ["row"]}, QUOTAS)


def test_each_table_s_commit_says_which_records_and_tables_the_batch_has(steps: Mock) -> None:
    run(steps, [("producer_id_metrics", "row"), ("throttle_decisions", "decision")])
    metadata = CommitMetadata("id", 3, ("throttle_decisions", "producer_id_metrics"), STARTS, ENDS)
    assert [call.args[3:] for call in steps.sink.append.mock_calls] == [(3, metadata), (3, metadata)]
