from unittest.mock import Mock

from pyspark.sql.streaming.listener import QueryProgressEvent, StreamingQueryListener

from streaming.listener import JavaListener, Progress, ProgressListener

REPORT = """{"name": "q", "batchId": 7, "durationMs": {"triggerExecution": 1500}, "numInputRows": 3,
    "sources": [{"endOffset": {"t": {"0": 4}}, "latestOffset": {"t": {"0": 9}}}],
    "stateOperators": [{"numRowsTotal": 2, "memoryUsedBytes": 10}]}"""
PROGRESS = Progress("q", 7, 1.5, 3, 5, 2, 10)


def test_a_batch_is_reported_by_two_calls_to_the_jvm() -> None:
    found: list[Progress] = []
    report = Mock(spec_set=["json"])
    report.json.return_value = REPORT
    event = Mock(spec_set=["progress"])
    event.progress.return_value = report

    JavaListener(ProgressListener(found.append, lambda _query: None)).onQueryProgress(event)

    assert found == [PROGRESS]


def test_a_batch_is_reported_with_spark_connect() -> None:
    found: list[Progress] = []
    listener: StreamingQueryListener = ProgressListener(found.append, lambda _query: None)

    listener.onQueryProgress(Mock(spec=QueryProgressEvent, progress=Mock(json=REPORT)))

    assert found == [PROGRESS]
