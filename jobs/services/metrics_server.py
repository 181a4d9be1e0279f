"""Serves Prometheus metrics and health probes over HTTP while a command runs."""

import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Info,
    PlatformCollector,
    ProcessCollector,
    make_wsgi_app,
    start_http_server,
)
from prometheus_client.registry import Collector

from jobs import __version__
from jobs.errors import JobError
from jobs.options import LOOPBACK

_Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
"""A WSGI application."""


@contextmanager
def serving(
    collector: Collector, port: int | None, host: str = LOOPBACK, unready: Callable[[], str] = lambda: ""
) -> Iterator[int]:
    """Serve a collector's metrics and the process's CPU and memory until the `with` block ends.

    `/healthz` answers 200 while the process runs. `/readyz` answers 503 if `unready` returns a reason, else 200. The
    server's threads call `collector` and `unready`. Port 0 selects a free port.

    Yields:
        The port, or 0 if `port` is None, in which case nothing is served.
    """
    if port is None:
        yield 0
        return
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    build = Info("pid_quota_build", "Version of pid-quota, and the Python it runs on.", registry=registry)
    build.info({"version": __version__, "python": platform.python_version()})
    registry.register(collector)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        msg = f"metrics can't be served at {host}:{port} ({error.strerror}): choose another --metrics-port"
        raise JobError(msg) from error
    server.set_app(_with_probes(make_wsgi_app(registry), unready))
    print(f"metrics at http://{host}:{server.server_port}/metrics", file=sys.stderr, flush=True)
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _with_probes(metrics: _Application, unready: Callable[[], str]) -> _Application:
    def answer(request: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if request["PATH_INFO"] not in ("/healthz", "/readyz"):
            return metrics(request, start)
        why = unready() if request["PATH_INFO"] == "/readyz" else ""
        start("503 Service Unavailable" if why else "200 OK", [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{why or 'ok'}\n".encode()]

    return answer
