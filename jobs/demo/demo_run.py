"""Runs the demo: broker, stream and two clients on this machine."""

import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from broker.enforcement.hold_topic import HoldTopic
from jobs.demo.broker import create_orders, demo_broker
from jobs.demo.clients import Clients, Traffic
from jobs.demo.demo_view import DemoView, PrincipalRow, read_principals
from jobs.demo.processes import ADDRESS_FILE, CHECKPOINT, Child
from jobs.demo.watching import Slowing, Watching
from jobs.errors import JobError
from jobs.stream.stream_progress import StreamProgress
from tables.quotas.quota_entry import QuotaEntry
from tables.quotas.quota_table import set_quota
from tables.store.path_tables import create_missing
from wire.topics import PRODUCE_EVENTS

DEFAULT_QUOTA = 20.0
"""New producer ids per hour. alice creates three producer ids, and mallory exhausts the quota in seconds."""

_USERS = {"alice": "alice-secret", "mallory": "mallory-secret"}
_LOOK_EVERY_S = 0.5
_STREAM_START_S = 300.0
DRAIN_S = 90.0
_DRAIN_PAUSE_S = 2.0


@dataclass(frozen=True)
class Result:
    """The outcome of the demo. `Watching` describes `first_decision_s` and `slowing`.

    Attributes:
        drained: Whether the stream read all events within `DRAIN_S`.
    """

    principals: list[PrincipalRow]
    throttled: frozenset[str]
    alice: Traffic
    mallory: Traffic
    seconds: float
    first_decision_s: float | None
    slowing: Slowing | None
    drained: bool

    @property
    def as_expected(self) -> bool:
        """Whether mallory was throttled, and alice was seen and not throttled."""
        seen = {row.principal for row in self.principals}
        return "User:alice" in seen - self.throttled and "User:mallory" in self.throttled


def run(
    view: DemoView, folder: Path, tables: str, seconds: float, *, stream: Child, open_console: Callable[[], None]
) -> Result:
    """Start the broker, run the traffic, and always stop all processes."""
    with ExitStack() as stack:
        try:
            # Step 1. While the broker starts, create the tables and set a default quota, as `pid-quota quotas` does.
            helper = stack.enter_context(ThreadPoolExecutor(1))
            prepared = helper.submit(_prepare, view, tables, open_console)
            with view.busy("Apache Kafka starts"):
                broker = stack.enter_context(demo_broker(folder / "broker", users=_USERS))
            prepared.result()
            create_orders(broker.admin_config())
            # Step 2. Wait for the plugin's topics, and write the broker's address, for which the stream waits.
            broker.wait_for_plugin()
            children = [stream]
            # The stream stops before the broker.
            stack.callback(stream.stop)
            _write_address(folder, broker.admin_servers)
            # Step 3. Start the traffic before the stream is ready. The first batch reads the earlier events.
            view.stage(
                f"Kafka answers at {broker.admin_servers}, where commands need no login, such as "
                f"`occupancy --bootstrap-servers {broker.admin_servers}`; users log in at {broker.bootstrap_servers}"
            )
            view.stage("alice keeps 3 producers, mallory creates one per message")
            progress = StreamProgress(folder / CHECKPOINT, broker.admin_config(), PRODUCE_EVENTS)
            with (
                HoldTopic(broker.admin_config()) as holds,
                Clients(broker.client_config("alice"), broker.client_config("mallory")) as clients,
            ):
                watching = Watching(view, tables, progress, clients, holds)
                _until(watching, children, lambda: watching.has_begun, _STREAM_START_S)
                _until(watching, children, lambda: watching.has_run_for(seconds))
                traffic_s = watching.seconds
            view.end_live()
            # Step 4. Let the stream catch up.
            view.stage("the traffic ends; the stream catches up")
            drained = _await_drain(progress, children)
            view.stage("stopping everything")
        finally:
            # A second Ctrl-C must not interrupt the shutdown.
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
    return Result(
        read_principals(tables, datetime.now(timezone.utc)),
        watching.throttled(),
        clients.alice,
        clients.mallory,
        traffic_s,
        watching.first_decision_s,
        watching.slowing,
        drained,
    )


def _prepare(view: DemoView, tables: str, open_console: Callable[[], None]) -> None:
    create_missing(tables)
    set_quota(tables, QuotaEntry(None, DEFAULT_QUOTA, datetime.now(timezone.utc), "pid-quota demo"))
    open_console()
    view.stage(f"tables in {tables}, default quota {DEFAULT_QUOTA:g} new producer ids per hour")


def _write_address(folder: Path, servers: str) -> None:
    # Rename the file into place, so that the stream never reads half an address.
    new = folder / f"{ADDRESS_FILE}.new"
    new.write_text(servers, encoding="ascii")
    new.replace(folder / ADDRESS_FILE)


def _until(
    watching: Watching, children: list[Child], condition: Callable[[], bool], within_s: float = float("inf")
) -> None:
    give_up_at = time.monotonic() + within_s
    while not condition():
        _require_alive(children)
        if time.monotonic() > give_up_at:
            msg = f"the stream made no batch within {within_s:g} s. Look at its log"
            raise JobError(msg)
        watching.look()
        time.sleep(_LOOK_EVERY_S)


def _await_drain(progress: StreamProgress, children: list[Child]) -> bool:
    """Wait until the topic is idle and all its records are committed. Return False after `DRAIN_S` seconds."""
    give_up_at = time.monotonic() + DRAIN_S
    before: dict[int, int] = {}
    while time.monotonic() < give_up_at:
        _require_alive(children)
        ends = progress.ends()
        if ends == before and progress.committed() == ends:
            return True
        before = ends
        time.sleep(_DRAIN_PAUSE_S)
    return False


def _require_alive(children: list[Child]) -> None:
    for child in children:
        child.require_alive()
