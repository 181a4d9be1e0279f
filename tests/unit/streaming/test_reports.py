"""The small queries beside the stream, without Spark."""

from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock, call

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from streaming.checkpoint.commit_metadata import CommitMetadata
from streaming.errors import SparkCallError
from streaming.pipeline import StreamOptions
from streaming.reports.report_queries import REPORTS, CommitReport, start_reports
from tables.schema.ddl import row_schema
from tables.store.path_tables import create_missing

BLOCKS = REPORTS["producer-id-blocks"]
STEPS = ("format", "options", "option", "load", "coalesce", "queryName", "foreachBatch", "trigger")


@pytest.fixture
def started(tmp_path: Path) -> Mock:
    """Reader, frame and writer of all reports in one."""
    query = Mock(spec_set=[*STEPS, "writeStream", "start"])
    query.configure_mock(writeStream=query, **{f"{step}.return_value": query for step in STEPS})
    options = StreamOptions(topic="events", kafka_options={}, tables=str(tmp_path / "tables"), checkpoint=str(tmp_path))
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


def test_the_rows_of_a_batch_are_appended_under_its_number_and_no_rows_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "metadata").write_text('{"id": "query"}')
    for batch_id in (6, 7):
        (tmp_path / "offsets" / str(batch_id)).write_text(f'v1\n{{}}\n{{"blocks":{{"0":{batch_id}}}}}')
    schema, sink, batch = row_schema(BLOCKS.table), Mock(), Mock()
    row = dict.fromkeys(schema.names) | {"broker_id": 3, "batch_id": 7}
    appended = pa.Table.from_pylist([row], schema)

    for batch_id, rows in ((7, appended.drop("batch_id")), (8, appended.drop("batch_id").slice(1))):
        report = replace(BLOCKS, rows=Mock(return_value=rows))
        CommitReport(report, Mock(return_value=sink), "s", str(tmp_path))(batch, batch_id)

    read = CommitMetadata("s/query", 7, (BLOCKS.table,), {"blocks": {0: 6}}, {"blocks": {0: 7}})
    sink.append.assert_called_once_with(batch.sparkSession, appended, BLOCKS.table, 7, read)
