"""Runs the demo: broker, tap, stream, enforcer and two clients on this machine."""

import signal
import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from broker.cluster.topics import ensure_topics
from broker.local.local_broker import LocalBroker
from jobs.demo.clients import ORDERS, Clients
from jobs.demo.demo_view import DemoView, PrincipalRow, read_principals
from jobs.demo.processes import Child
from jobs.errors import DemoError
from jobs.stream.stream_progress import StreamProgress
from tables.query.sql_query import query
from tables.quotas.quota_entry import QuotaEntry
from tables.quotas.quota_table import set_quota
from wire.topics import PRODUCE_EVENTS

DEFAULT_QUOTA = 20.0
"""New producer ids per hour: alice's three stay far below; mallory exhausts it in seconds."""

_USERS = {"alice": "alice-secret", "mallory": "mallory-secret"}
_LOOK_EVERY_S = 2.0
_STREAM_START_S = 300.0
DRAIN_S = 90.0
_SLOWED = "SELECT DISTINCT principal FROM enforcement_actions WHERE state = 'in_force'"


@dataclass(frozen=True)
class Slowing:
    """When the enforcer throttled mallory, and what mallory had done by then.

    Attributes:
        after_s: Seconds of traffic until the lease was in the table.
        producers: Producers that mallory had made by then.
    """

    after_s: float
    producers: int

    def told(self, producers: int, seconds: float) -> str:
        """Return its effect on mallory in words, given mallory's producers and the seconds of traffic in total.

        Examples:
            >>> Slowing(20.0, 100).told(116, 60.0)
            'mallory made 5.0 producers a second until then, 0.4 from then on'
        """
        then = (producers - self.producers) / max(1.0, seconds - self.after_s)
        return (
            f"mallory made {self.producers / self.after_s:.1f} producers a second until then, {then:.1f} from then on"
        )


@dataclass(frozen=True)
class Result:
    """Outcome of the demo.

    Attributes:
        principals: The last state of each principal.
        throttled: Principals with a THROTTLE decision.
        first_decision_s: Seconds of traffic until the first decision was in the table, None if there was none.
        slowing: When the enforcer throttled mallory, None if it did not.
        drained: Whether the stream caught up with the traffic in time.
    """

    principals: list[PrincipalRow]
    throttled: frozenset[str]
    first_decision_s: float | None
    slowing: Slowing | None
    drained: bool

    @property
    def as_expected(self) -> bool:
        """Whether mallory was throttled, and alice was seen and not throttled."""
        seen = {row.principal for row in self.principals}
        return "User:alice" in seen - self.throttled and "User:mallory" in self.throttled


def run(view: DemoView, folder: Path, tables: str, seconds: float) -> Result:
    """Start everything, run the traffic, and stop everything in any case.

    Args:
        view: Shows progress.
        folder: Folder of the broker, the checkpoint and all logs.
        tables: Folder of the tables.
        seconds: Seconds of traffic.

    Raises:
        DemoError: If a process ends early, or the stream does not start.
    """
    with ExitStack() as stack:
        try:
            # Step 1. A default quota, set as `pid-quota quotas` does.
            set_quota(tables, QuotaEntry(None, DEFAULT_QUOTA, _now(), "pid-quota demo"))
            view.stage(f"tables in {tables}, default quota {DEFAULT_QUOTA:g} new producer ids per hour")
            # Step 2. The broker and its topics.
            view.stage("starting Apache Kafka, with users alice and mallory")
            broker = stack.enter_context(LocalBroker(folder / "broker", users=_USERS, logs_blocks=True))
            ensure_topics(broker.admin_config())
            _create_orders(broker)
            # Step 3. The tap, the stream and the enforcer, before the traffic, to see all of it live.
            starting = (_tap(broker, folder), _stream(broker, folder, tables), _enforcer(broker, folder, tables))
            children = [stack.enter_context(child) for child in starting]
            progress = StreamProgress(folder / "checkpoint", broker.admin_config(), PRODUCE_EVENTS)
            view.stage(f"Kafka answers at {broker.bootstrap_servers}; waiting for Spark's first, empty batch")
            _await_start(progress, children)
            # Step 4. Traffic, then let the stream catch up.
            view.stage(f"{seconds:g} s of traffic: alice keeps 3 producers, mallory makes one per message")
            with Clients(broker.client_config("alice"), broker.client_config("mallory")) as clients:
                first_decision_s, slowing = _watch(view, tables, seconds, children, clients)
            view.end_live()
            view.stage(f"sent by alice: {clients.alice}; by mallory: {clients.mallory}")
            if slowing is not None:
                view.stage(slowing.told(clients.mallory.producers, seconds))
            view.stage("waiting for the stream to catch up")
            drained = _await_drain(progress, children)
            view.stage("stopping everything")
        finally:
            # A second Ctrl-C must not leave a process behind.
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
    return Result(read_principals(tables, _now()), _throttled(tables), first_decision_s, slowing, drained)


def _create_orders(broker: LocalBroker) -> None:
    # Keep a reference: the future never completes once the client is collected.
    admin = AdminClient(broker.admin_config() | {"log_level": 0})
    admin.create_topics([NewTopic(ORDERS, num_partitions=3)])[ORDERS].result()


def _tap(broker: LocalBroker, folder: Path) -> Child:
    options = ["--log-file", str(broker.log_file), "--broker-id", str(broker.broker_id), "--learn-seconds", "0"]
    servers = ["--bootstrap-servers", broker.admin_servers]
    return Child("tap", ["-m", "jobs", "tap", *options, *servers], folder / "tap.log")


def _stream(broker: LocalBroker, folder: Path, tables: str) -> Child:
    servers = ["--bootstrap-servers", broker.admin_servers]
    places = ["--topic", PRODUCE_EVENTS, "--tables", tables, "--checkpoint", str(folder / "checkpoint")]
    pace = ["--trigger", "2 seconds", "--learn-seconds", "0", "--metrics-interval-seconds", "0"]
    return Child("stream", ["-m", "jobs.stream", *servers, *places, *pace], folder / "stream.log")


def _enforcer(broker: LocalBroker, folder: Path, tables: str) -> Child:
    options = ["--bootstrap-servers", broker.admin_servers, "--tables", tables, "--apply"]
    return Child("enforcer", ["-m", "jobs", "enforce", *options], folder / "enforcer.log")


def _await_start(progress: StreamProgress, children: list[Child]) -> None:
    give_up_at = time.monotonic() + _STREAM_START_S
    while progress.committed() is None:
        _require_alive(children)
        if time.monotonic() > give_up_at:
            msg = f"the stream made no batch within {_STREAM_START_S:g} s. Look at its log"
            raise DemoError(msg)
        time.sleep(0.2)


def _watch(
    view: DemoView, tables: str, seconds: float, children: list[Child], clients: Clients
) -> tuple[float | None, Slowing | None]:
    """Show the traffic live; return the seconds to the first decision, and when it was enforced."""
    begin = time.monotonic()
    first_decision_s = slowing = None
    while (passed := time.monotonic() - begin) < seconds:
        time.sleep(min(_LOOK_EVERY_S, seconds - passed))
        _require_alive(children)
        if first_decision_s is None and _throttled(tables):
            first_decision_s = time.monotonic() - begin
            view.stage(f"first decision, {first_decision_s:.1f} s after the first message")
        if slowing is None and query(tables, _SLOWED, _now()).rows:
            slowing = Slowing(time.monotonic() - begin, clients.mallory.producers)
            view.stage("the enforcer slows mallory down, by a client quota on the broker")
        left = max(0.0, seconds - (time.monotonic() - begin))
        view.update(read_principals(tables, _now()), f"{left:.0f} s of traffic left")
    return first_decision_s, slowing


def _await_drain(progress: StreamProgress, children: list[Child]) -> bool:
    """Wait until the topic is idle and the stream has committed all of it; return whether it did in time."""
    give_up_at = time.monotonic() + DRAIN_S
    before: dict[int, int] = {}
    while time.monotonic() < give_up_at:
        _require_alive(children)
        ends = progress.ends()
        if ends == before and progress.committed() == ends:
            return True
        before = ends
        time.sleep(_LOOK_EVERY_S)
    return False


def _require_alive(children: list[Child]) -> None:
    for child in children:
        child.require_alive()


def _throttled(tables: str) -> frozenset[str]:
    rows = query(tables, "SELECT DISTINCT principal FROM throttle_decisions WHERE action = 'THROTTLE'", _now()).rows
    return frozenset(row[0] for row in rows)


def _now() -> datetime:
    return datetime.now(timezone.utc)
