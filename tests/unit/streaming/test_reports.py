"""The small queries beside the stream, without Spark."""

from pathlib import Path
from unittest.mock import Mock, call

import pytest
from pyspark.errors import PySparkException

from streaming.errors import SparkCallError
from streaming.reports.report_queries import REPORTS, CommitReport, start_reports
from tables.store.path_tables import create_missing
from tests.kits.batch_kit import stream_options

STEPS = ("format", "options", "option", "load", "coalesce", "queryName", "foreachBatch", "trigger")


@pytest.fixture
def started(tmp_path: Path) -> Mock:
    """Reader, frame and writer of all reports in one."""
    query = Mock(spec_set=[*STEPS, "writeStream", "start"])
    query.configure_mock(writeStream=query, **{f"{step}.return_value": query for step in STEPS})
    options = stream_options(str(tmp_path), tables=str(tmp_path / "tables"))
    create_missing(options.tables)
    start_reports(Mock(readStream=query), options, REPORTS)
    return query


def test_each_report_keeps_its_checkpoint_and_has_an_interval_of_its_own(started: Mock, tmp_path: Path) -> None:
    options = [each.args for each in started.option.call_args_list]
    topics, checkpoints = ([v for k, v in options if k == name] for name in ("subscribe", "checkpointLocation"))

    # Streams that run have these folders: another one would append all rows again.
    assert dict(zip(topics, checkpoints, strict=True)) == {
        "tap-status": f"{tmp_path}/taps",
        "producer-id-blocks": f"{tmp_path}/blocks",
        "producer-inits": f"{tmp_path}/inits",
    }
    assert started.trigger.call_args_list == [
        call(processingTime=f"{report.trigger_ms} milliseconds") for report in REPORTS.values()
    ]


def test_a_report_that_fails_in_spark_leaves_no_stack_of_java(started: Mock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CommitReport, "__call__", Mock(side_effect=PySparkException("lost")))

    with pytest.raises(SparkCallError):
        started.foreachBatch.call_args.args[0](Mock(), 0)
