"""What `run` serves on its port."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from jobs.run import own_metrics
from jobs.run.own_metrics import application

OF_STREAM = "pid_quota_batches_total 7\n"
PARTS = [
    SimpleNamespace(name="stream", is_up=True, restarts=3),
    SimpleNamespace(name="console", is_up=False, restarts=0),
]
TASKS = [SimpleNamespace(name="maintain", done_at_s=5.0, failures=2)]


def answer(path: str = "/metrics", parts: Any = PARTS) -> tuple[str, str]:
    """Return the status and the text."""
    tasks: Any = TASKS
    statuses = list[str]()
    web = application(parts, tasks, Mock(dropped=11), ("127.0.0.1", 1))
    texts = web({"PATH_INFO": path}, lambda status, _headers: statuses.append(status))
    return statuses[0], b"".join(texts).decode()


def test_the_port_has_what_the_parts_and_tasks_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_metrics, "get", lambda *_: (200, OF_STREAM))
    status, text = answer()
    assert status == "200 OK"
    lines = text.splitlines()
    assert {
        'pid_quota_part_up{part="stream"} 1.0',
        'pid_quota_part_up{part="console"} 0.0',
        'pid_quota_part_restarts_total{part="stream"} 3.0',
        'pid_quota_task_done_timestamp_seconds{task="maintain"} 5.0',
        'pid_quota_task_failures_total{task="maintain"} 2.0',
        "pid_quota_log_lines_dropped_total 11.0",
        OF_STREAM.strip(),
    } <= {*lines}
    assert answer("/other")[0] == "404 Not Found"


def test_the_port_has_its_own_metrics_while_the_stream_gives_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> tuple[int, str]:
        raise ConnectionRefusedError

    for found in (refuse, lambda *_: (503, OF_STREAM)):
        monkeypatch.setattr(own_metrics, "get", found)
        status, text = answer()
        assert status == "200 OK"
        assert "pid_quota_part_up" in text
        assert OF_STREAM not in text


def test_a_stream_that_does_not_run_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_metrics, "get", lambda *_: pytest.fail("it would wait for the answer"))
    assert "pid_quota_part_up" in answer(parts=PARTS[::-1])[1]
