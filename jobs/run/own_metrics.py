"""What `pid-quota run` serves on its port: its own metrics, those of the stream, and probes."""

from collections.abc import Callable, Iterable, Iterator
from http.client import HTTPException
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from jobs import __version__
from jobs.run.log import RunLog
from jobs.run.parts import LongPart
from jobs.run.probes import get
from jobs.run.tasks import Task
from jobs.services.listening import Address
from jobs.services.metrics_server import Application

_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ASK_S = 2.0
"""Less than Prometheus waits, so that it hears of a stream that hangs."""


class RunMetrics(Collector):
    """A collector of how the parts are."""

    def __init__(self, parts: Iterable[LongPart], tasks: Iterable[Task], log: RunLog) -> None:
        self._parts, self._tasks, self._log = parts, tasks, log

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        yield InfoMetricFamily("pid_quota_run", "Version of `pid-quota run`.", {"version": __version__})
        up = GaugeMetricFamily("pid_quota_part_up", "1 if a part runs and answers, else 0.", labels=["part"])
        restarts = CounterMetricFamily("pid_quota_part_restarts", "Starts after the first.", labels=["part"])
        for part in self._parts:
            up.add_metric([part.name], int(part.is_up))
            restarts.add_metric([part.name], part.restarts)
        done = GaugeMetricFamily(
            "pid_quota_task_done_timestamp_seconds", "Unix time when a task last ended well; 0: never.", labels=["task"]
        )
        failed = CounterMetricFamily("pid_quota_task_failures", "Failures of a task.", labels=["task"])
        for task in self._tasks:
            done.add_metric([task.name], task.done_at_s)
            failed.add_metric([task.name], task.failures)
        dropped = CounterMetricFamily("pid_quota_log_lines_dropped", "Lines of the log that nobody read.")
        dropped.add_metric([], self._log.dropped)
        yield from (up, restarts, done, failed, dropped)


def application(
    parts: tuple[LongPart, LongPart], tasks: Iterable[Task], log: RunLog, of_stream: Address
) -> Application:
    """Return the application that answers with the parent's metrics, and those of the first part, the stream."""
    registry = CollectorRegistry()
    registry.register(RunMetrics(parts, tasks, log))

    def answer(request: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if request["PATH_INFO"] not in ("/", "/metrics"):
            start("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
            return [b"there are /metrics, /healthz and /readyz\n"]
        texts = [generate_latest(registry)]
        if parts[0].is_up:
            texts.append(_of_stream(of_stream))
        start("200 OK", [("Content-Type", _CONTENT_TYPE)])
        return texts

    return answer


def _of_stream(stream: Address) -> bytes:
    """Return the stream's metrics, or nothing if it does not answer."""
    try:
        status, text = get(stream, "/metrics", _ASK_S)
    except (OSError, HTTPException):
        return b""
    return text.encode() if status == 200 else b""
