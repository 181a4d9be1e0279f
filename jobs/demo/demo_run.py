"""Runs the demo: a broker, `pid-quota run` and two clients on this machine."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from broker.enforcement.hold_topic import HoldTopic
from broker.kafka.offsets import reading
from broker.local.local_broker import LocalBroker
from jobs.demo.clients import Clients, Traffic, create_topic
from jobs.demo.demo_view import DemoView
from jobs.demo.interrupts import Interrupts
from jobs.demo.own_run import OwnRun, console_port, own_run
from jobs.demo.watching import MALLORY, Slowing, Watching
from jobs.errors import JobError
from jobs.run.settings import RunSettings
from jobs.services.listening import LOOPBACK
from streaming.checkpoint.spark_files import committed_offsets
from wire.topics import PRODUCE_EVENTS

DEFAULT_QUOTA = 20.0
"""New producer ids per window. alice creates three producer ids, and mallory exhausts the quota in seconds."""
_WINDOW_S = 60
"""A minute instead of an hour, so that a demo shows what a user on hold still gets."""

_USERS = {"alice": "alice-secret", "mallory": "mallory-secret"}
_OF_PLUGIN: dict[str, Any] = {
    "pid_quota_window_ms": 1000 * _WINDOW_S,
    "pid_quota_repeat_ms": 1000 * _WINDOW_S // 20,
    # Spark runs a task per partition and batch, and one partition is enough.
    "pid_quota_partitions": 1,
}
# With one task at a time, one Python worker suffices, and a core remains for the broker.
_STREAM = ("--master", "local[1]")
_SPAN_HOURS = 0.1
_LOOK_EVERY_S = 0.2
_CATCH_UP_S = 90.0
_KAFKA_TIMEOUT_S = 10.0
_CATCH_UP_PAUSE_S = 2.0


@dataclass(frozen=True)
class Result:
    """The outcome of the demo. `Watching` describes `slowing`."""

    seen: frozenset[str]
    throttled: frozenset[str]
    alice: Traffic
    mallory: Traffic
    seconds: float
    slowing: Slowing | None

    @property
    def as_expected(self) -> bool:
        """Whether mallory was throttled, and alice was seen and not throttled."""
        return "User:alice" in self.seen - self.throttled and MALLORY in self.throttled


@dataclass(frozen=True)
class Installation:
    """What runs on this machine. `console` is a URL."""

    broker: LocalBroker
    settings: RunSettings
    run: OwnRun
    console: str


@contextmanager
def installed(view: DemoView, data: Path, logs: Path, interrupts: Interrupts) -> Iterator[Installation]:
    """Start a broker, then `pid-quota run`, and wait until it is ready. Stop all at the end of the `with` block."""
    with ExitStack() as stack:
        try:
            with view.busy("Apache Kafka starts"):
                broker = stack.enter_context(LocalBroker(logs / "broker", users=_USERS, holds=True, **_OF_PLUGIN))
                create_topic(broker.admin_config())
                broker.wait_for_plugin()
            view.stage(
                f"Kafka answers at {broker.admin_servers}, where commands need no login, such as "
                f"`occupancy --bootstrap-server {broker.admin_servers}`; users log in at {broker.bootstrap_servers}"
            )
            settings = _settings(broker, data)
            run = stack.enter_context(own_run(settings, logs / "run.log", interrupts))
            console = run.await_console()
            view.stage(f"watch it in a browser: {console}")
            view.stage(f"mallory's page:        {page_of(console, MALLORY)}")
            view.stage(f"`pid-quota run` starts; default quota {DEFAULT_QUOTA:g} new producer ids a minute")
            with view.busy("Spark starts"):
                run.await_ready()
            yield Installation(broker, settings, run, console)
        finally:
            interrupts.ignore()


def make_traffic(view: DemoView, on: Installation, seconds: float) -> Result:
    """Let alice and mallory produce, and return what came of it."""
    broker, tables = on.broker, str(on.settings.tables)
    with (
        HoldTopic(broker.admin_config()) as holds,
        Clients(broker.client_config("alice"), broker.client_config("mallory")) as clients,
    ):
        view.stage("alice keeps 3 producers, mallory creates one per message")
        watching = Watching(view, tables, clients, holds)
        while watching.seconds < seconds:
            on.run.require_alive()
            watching.look()
            time.sleep(_LOOK_EVERY_S)
        traffic_s = watching.seconds
    view.end_live()
    view.stage("the traffic ends; the stream catches up")
    _catch_up(on)
    return Result(
        watching.seen(),
        watching.throttled(),
        clients.alice,
        clients.mallory,
        traffic_s,
        watching.slowing,
    )


def page_of(console: str, principal: str) -> str:
    """Return the URL of a principal's page that shows the last six minutes.

    Examples:
        >>> page_of("http://127.0.0.1:8080/", "User:mallory")
        'http://127.0.0.1:8080/#/principal?name=User%3Amallory&hours=0.1'
    """
    return f"{console}#/principal?{urlencode({'name': principal, 'hours': _SPAN_HOURS})}"


def _settings(broker: LocalBroker, data: Path) -> RunSettings:
    quotas = data / "quotas.yaml"
    quotas.write_text(f"- entity_name: null\n  producer_ids_rate: {DEFAULT_QUOTA:g}\n", encoding="utf-8")
    return RunSettings(
        bootstrap_server=broker.admin_servers,
        data=data,
        quotas_file=quotas,
        trigger="1 second",
        window_seconds=_WINDOW_S,
        enforce=True,
        console=(LOOPBACK, console_port()),
        metrics=(LOOPBACK, 0),
        more_stream_options=_STREAM,
    )


def _catch_up(on: Installation) -> None:
    """Wait until the topic is idle and all its records are committed."""
    give_up_at, before = time.monotonic() + _CATCH_UP_S, dict[int, int]()
    while (ends := _ends(on.broker)) != before or _committed(on.settings) != ends:
        on.run.require_alive()
        if time.monotonic() > give_up_at:
            msg = f"the stream had not caught up {_CATCH_UP_S:g} s after the traffic. Look at its log"
            raise JobError(msg)
        before = ends
        time.sleep(_CATCH_UP_PAUSE_S)


def _ends(broker: LocalBroker) -> dict[int, int]:
    """Return the end offset of each partition of the topic of events."""
    with reading(broker.admin_config(), PRODUCE_EVENTS, "newest", _KAFKA_TIMEOUT_S) as (_, extents):
        return {number: end for number, (_, end) in extents.items()}


def _committed(settings: RunSettings) -> dict[int, int]:
    """Return the end offset of each partition in the last committed batch."""
    return (committed_offsets(str(settings.checkpoint)) or {}).get(PRODUCE_EVENTS, {})
