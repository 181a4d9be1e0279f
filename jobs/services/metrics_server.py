"""Serves Prometheus metrics and health probes over HTTP while a command runs."""

import platform
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, Info, PlatformCollector, ProcessCollector, make_wsgi_app
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from jobs import __version__
from jobs.output.terminal import printable
from jobs.services.listening import METRICS_FD, Address, handed_down, listening

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
"""A WSGI application."""
METRICS_OPTION = "--metrics"
"""The option with the address to serve metrics on."""
_IDLE_S = 30.0
"""A connection without a request is closed after this time."""


class Readable(Collector):
    """A collector's metrics, with control characters in values of labels escaped.

    Prometheus' format escapes only backslash, quote and line feed. Kafka lets users choose other names: a carriage
    return or U+2028 would end a line for some readers, and a lone surrogate would fail the whole answer.
    """

    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        for metric in self._collector.collect():
            metric.samples = [
                sample._replace(labels={name: printable(value).plain for name, value in sample.labels.items()})
                for sample in metric.samples
            ]
            yield metric


def no_reason() -> str:
    """Return no reason why a part is not well."""
    return ""


@contextmanager
def serving(
    collector: Collector,
    address: Address | None,
    unready: Callable[[], str] = no_reason,
    unwell: Callable[[], str] = no_reason,
) -> Iterator[int]:
    """Serve a collector's metrics and the process's CPU and memory until the `with` block ends.

    `/healthz` answers 503 if `unwell` returns a reason, and `/readyz` if `unready` does; else 200. The server's threads
    call `collector`, `unready` and `unwell`. Port 0 selects a free port.

    Yields:
        The port, or 0 if `address` is None and no socket was handed down, in which case nothing is served.
    """
    listener, is_own = handed_down(METRICS_FD), False
    if listener is None and address is not None:
        listener, is_own = listening(*address, METRICS_OPTION), True
    if listener is None:
        yield 0
        return
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    build = Info("pid_quota_build", "Version of pid-quota, and the Python it runs on.", registry=registry)
    build.info({"version": __version__, "python": platform.python_version()})
    registry.register(Readable(collector))
    with served(listener, make_wsgi_app(registry), unready, unwell) as bound:
        if is_own:
            print(f"metrics at http://{listener.getsockname()[0]}:{bound}/metrics", file=sys.stderr, flush=True)
        yield bound


@contextmanager
def served(
    listener: socket.socket, metrics: Application, unready: Callable[[], str], unwell: Callable[[], str]
) -> Iterator[int]:
    """Serve metrics and probes on a listening socket until the `with` block ends. Yields the port."""
    server = _Server(listener, _with_probes(metrics, {"/healthz": unwell, "/readyz": unready}))
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _with_probes(metrics: Application, reasons: dict[str, Callable[[], str]]) -> Application:
    def answer(request: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        reason = reasons.get(request["PATH_INFO"])
        if reason is None:
            return metrics(request, start)
        why = reason()
        start("503 Service Unavailable" if why else "200 OK", [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{why or 'ok'}\n".encode()]

    return answer


class _Handler(WSGIRequestHandler):
    timeout = _IDLE_S

    @override
    def log_message(self, *_: object) -> None:
        """Log nothing."""


class _Server(ThreadingMixIn, WSGIServer):
    """A server on a socket that listens already."""

    daemon_threads = True

    def __init__(self, listener: socket.socket, application: Application) -> None:
        self.address_family = listener.family
        super().__init__(listener.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.server_name, self.server_port = listener.getsockname()[:2]
        self.setup_environ()
        self.set_app(application)
