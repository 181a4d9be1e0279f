"""The order of the steps in which the driver runs a batch and writes its rows."""

from unittest.mock import Mock

import pyarrow as pa
import pytest

from quota.limits import Quotas
from streaming.batch.context import BatchContext
from streaming.commit import commit
from streaming.operator.rows import pack


def test_a_batch_is_checked_begun_run_checked_again_written_and_ended_in_this_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps, lost = Mock(), {"reason": "records were lost"}
    for name in ("begin_batch", "end_batch"):
        monkeypatch.setattr(commit, name, getattr(steps, name))
    monkeypatch.setattr(commit, "table_rows", lambda bodies, *_: bodies)
    monkeypatch.setattr(commit, "load_table_ids", lambda _: {})
    context = steps.begin_batch.return_value = BatchContext(5, {}, {}, Quotas())
    packed = pack([("producer_id_metrics", "row"), ("tracked", 7), ("throttle_decisions", "decision")])
    steps.run.toArrow.return_value = pa.table({"packed": packed["packed"]})
    steps.watch.rows.return_value = [lost]

    commit.Commit(steps.sink, "id", "checkpoint", "tables", steps.watch, steps.observe, steps.enforce)(steps.run, 3)

    order = ["watch.check", "begin_batch", "run.toArrow", "watch.check", "watch.rows"]
    order += ["sink.append", "enforce", "sink.append", "sink.append", "observe", "end_batch"]
    assert [name for name, *_ in steps.mock_calls] == order
    written = [("throttle_decisions", ["decision"]), ("producer_id_metrics", ["row"]), ("quarantined_events", [lost])]
    assert [(call.args[2], call.args[1]) for call in steps.sink.append.mock_calls] == written
    assert steps.end_batch.call_args.args[1:] == (3, context, dict(written) | {"tracked": [7]})
