import json
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from streaming.listener import JavaListener, Progress, ProgressListener, ProgressPoll, progress_of

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


def ended_batch(second: int) -> SimpleNamespace:
    return SimpleNamespace(json=json.dumps(json.loads(REPORT) | {"timestamp": f"2026-01-01T00:00:{second:02}.000Z"}))


def test_over_spark_connect_each_batch_is_reported_once_and_then_that_the_query_is_idle() -> None:
    # given
    found: list[Progress | str] = []
    status = {"isTriggerActive": False}
    query: Any = SimpleNamespace(runId="run", name="q", recentProgress=[], status=status)
    ask = ProgressPoll(found.append, found.append)

    # when
    query.recentProgress += [ended_batch(1), ended_batch(2)]
    ask([query])
    query.recentProgress += [ended_batch(3)]
    ask([query])
    status["isTriggerActive"] = True
    ask([query])
    status["isTriggerActive"] = False
    ask([query])

    # then
    assert found == [PROGRESS, PROGRESS, PROGRESS, "q"]


def test_a_query_that_read_past_the_end_it_knew_is_not_behind() -> None:
    read, known = ({"t": {"0": 9}}, {"t": {"0": 4}})

    assert progress_of({"batchId": 1, "sources": [{"endOffset": read, "latestOffset": known}]}).records_behind == 0
