"""Serves metrics to Prometheus over HTTP while a command runs."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, start_http_server
from prometheus_client.registry import Collector

from jobs.errors import MetricsError

LOOPBACK = "127.0.0.1"

MetricsPort = Annotated[
    int | None, typer.Option(min=0, max=65_535, help="Port to serve Prometheus metrics on; 0 takes a free one.")
]
MetricsHost = Annotated[
    str, typer.Option(help="Address to serve them on: no password guards them, and they name principals.")
]


@contextmanager
def serving(collector: Collector, port: int | None, host: str = LOOPBACK) -> Iterator[int]:
    """Serve a collector's metrics and the process's CPU and memory until the block ends.

    Args:
        collector: Called at each scrape, from the server's threads.
        port: Port to listen on; 0 takes a free one, None serves nothing.
        host: Address to listen on.

    Yields:
        The port; 0 if nothing is served.

    Raises:
        MetricsError: If the address can't be bound.
    """
    if port is None:
        yield 0
        return
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    registry.register(collector)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        msg = f"metrics can't be served at {host}:{port} ({error.strerror}): choose another --metrics-port"
        raise MetricsError(msg) from error
    print(f"metrics at http://{host}:{server.server_port}/metrics", file=sys.stderr, flush=True)
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
