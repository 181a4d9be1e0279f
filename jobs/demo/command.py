"""`pid-quota demo`: a real broker, real producers, the tap and the stream, on this machine, in two minutes."""

import json
import shutil
import signal
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.console import Console

from broker.cluster.topics import ensure_topics
from broker.jars.jar_sets import ensure_jars
from broker.local.local_broker import LocalBroker
from jobs.demo.clients import ORDERS, Clients
from jobs.demo.demo_console import DemoConsole
from jobs.demo.demo_view import DemoView, PrincipalRow, principals_table, read_principals
from jobs.demo.processes import Child, prepare_folder
from jobs.errors import DemoError
from jobs.stream.stream_progress import StreamProgress
from jobs.tables_out import JsonOption, to_json, to_table
from jobs.terminal import output, printable
from tables.delta import create_missing
from tables.query.sql_query import query
from tables.quotas.quota_entry import QuotaEntry
from tables.quotas.quota_table import set_quota
from wire.topics import PRODUCE_EVENTS

DEFAULT_QUOTA = 20.0
"""New producer ids per hour: alice's three are far below, mallory's are used up in seconds."""

_USERS = {"alice": "alice-secret", "mallory": "mallory-secret"}
_LOOK_EVERY_S = 2.0
_STREAM_START_S = 300.0
_DRAIN_S = 90.0
_DECISIONS = "SELECT principal, action, refused_pids, throttle_time_ms FROM throttle_decisions"
_SLOWED = "SELECT DISTINCT principal FROM enforcement_actions WHERE state = 'in_force'"


@dataclass(frozen=True)
class Slowing:
    """When the enforcer's client quota came, and what mallory had done by then.

    Attributes:
        after_s: Seconds of traffic until it was seen in the table.
        producers: Producers that mallory had made.
    """

    after_s: float
    producers: int

    def told(self, producers: int, seconds: float) -> str:
        """Say what it did to mallory, who made so many producers in so many seconds of traffic.

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
    """What the demo showed.

    Attributes:
        principals: The last state of each principal.
        throttled: Principals with a THROTTLE decision.
        first_decision_s: Seconds of traffic until the first decision was seen in the table, None if there was none.
        slowing: When mallory was slowed down, None if that did not happen.
        drained: Whether the stream caught up with the traffic in time.
    """

    principals: list[PrincipalRow]
    throttled: frozenset[str]
    first_decision_s: float | None
    slowing: Slowing | None
    drained: bool

    @property
    def as_expected(self) -> bool:
        """Whether mallory was throttled and alice, who was there too, was not."""
        seen = {row.principal for row in self.principals}
        return "User:alice" in seen - self.throttled and "User:mallory" in self.throttled


def demo(
    seconds: Annotated[float, typer.Option(min=5, help="Seconds of traffic.")] = 90,
    tables: Annotated[Path, typer.Option(help="Folder of the tables; an earlier demo's is replaced.")] = Path(
        "demo-data"
    ),
    keep: Annotated[bool, typer.Option("--keep", help="Keep the folder of the broker and all logs.")] = False,
    stay: Annotated[
        bool | None,
        typer.Option(
            "--stay/--no-stay", help="Keep the console up at the end, until Ctrl-C.", show_default="on a terminal: stay"
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show it all on this machine: mallory, who makes a producer per message, is throttled; alice is not.

    The first line is the console's address: watch it in a browser meanwhile.
    """
    # SIGTERM has to stop what we started, just as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console(stderr=True, highlight=False) if as_json else output()
    ensure_jars(console=console)
    prepare_folder(tables)
    # A bare name with a dot would be taken for catalog.schema.
    tables_text = str(tables) if tables.is_absolute() else f"./{tables}"
    folder = Path(tempfile.mkdtemp(prefix="pid-quota-demo-"))
    useless = False
    try:
        create_missing(tables_text)
        with DemoView(console) as view, DemoConsole(tables_text) as page:
            view.stage(f"watch it in a browser: {page.address}")
            view.stage(f"mallory's line:        {page.page_of('User:mallory')}")
            result = _run(view, folder, tables_text, seconds)
            if as_json:
                typer.echo(_as_json(result, tables_text))
            else:
                _report(view, result, tables_text)
            useless = result.as_expected
            if result.as_expected and (stay or (stay is None and console.is_terminal and sys.stdin.isatty())):
                linger(view, page)
    finally:
        if useless and not keep:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            console.print(printable(f"all logs are in {folder}"))
    if not result.as_expected:
        throttled = ", ".join(sorted(result.throttled)) or "nobody"
        msg = f"mallory has to be throttled and alice not, but throttled was: {throttled}. Try --seconds 180"
        raise DemoError(msg)


def _run(view: DemoView, folder: Path, tables: str, seconds: float) -> Result:
    """Start everything, let the traffic run, and stop everything, whatever happens."""
    with ExitStack() as stack:
        try:
            # Step 1. A default quota, set as `pid-quota quotas` does.
            set_quota(tables, QuotaEntry(None, DEFAULT_QUOTA, _now(), "pid-quota demo"))
            view.stage(f"tables in {tables}, default quota {DEFAULT_QUOTA:g} new producer ids per hour")
            # Step 2. The broker and its topics.
            view.stage("starting Apache Kafka, with users alice and mallory")
            broker = stack.enter_context(LocalBroker(folder / "broker", users=_USERS))
            ensure_topics(broker.admin_config())
            _create_orders(broker)
            # Step 3. The tap, the stream and the enforcer, before the traffic, so that all of it is seen live.
            starting = (_tap(broker, folder), _stream(broker, folder, tables), _enforcer(broker, folder, tables))
            children = [stack.enter_context(child) for child in starting]
            progress = StreamProgress(folder / "checkpoint", broker.admin_config(), PRODUCE_EVENTS)
            view.stage(f"Kafka answers at {broker.bootstrap_servers}; waiting for Spark's first, empty batch")
            _await_start(progress, children)
            # Step 4. Traffic, then what is still under way.
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
    # Named, since the answer never comes once the client is collected.
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
    """Show the traffic live; returns the seconds to the first decision, and when it was carried out."""
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
    """Wait until the topic stands still and the stream has committed all of it; says whether it did in time."""
    give_up_at = time.monotonic() + _DRAIN_S
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


def _as_json(result: Result, tables: str) -> str:
    decisions = json.loads(to_json(query(tables, f"{_DECISIONS} ORDER BY decided_at", _now())))
    record = {**asdict(result), "throttled": sorted(result.throttled), "decisions": decisions}
    return json.dumps(record, ensure_ascii=False, indent=2, default=datetime.isoformat)


def _report(view: DemoView, result: Result, tables: str) -> None:
    view.show(principals_table(result.principals, "Principals"))
    view.show(to_table(query(tables, f"{_DECISIONS} ORDER BY decided_at", _now())))
    if not result.drained:
        view.stage(f"the stream had not caught up {_DRAIN_S:g} s after the traffic: the numbers are not final")
    first = "none" if result.first_decision_s is None else f"{result.first_decision_s:.1f} s"
    view.stage(f"first decision after {first} of traffic, {view.seconds:.0f} s in all. Query the tables yourself:")
    view.stage(f'{_program()} sql --tables {tables} "{_DECISIONS}"')


def linger(view: DemoView, page: DemoConsole) -> None:
    """Leave the console up until Ctrl-C or SIGTERM."""
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler)
        view.stage(f"the console stays at {page.address}: Ctrl-C ends it")
        threading.Event().wait()
    except KeyboardInterrupt:
        # The way to end it.
        return


def _program() -> str:
    """Return how this user calls `pid-quota`: `make demo` leaves it in a virtual environment that is not on PATH."""
    if shutil.which("pid-quota"):
        return "pid-quota"
    program = Path(sys.executable).with_name("pid-quota")
    return str(program.relative_to(Path.cwd())) if program.is_relative_to(Path.cwd()) else str(program)


def _now() -> datetime:
    return datetime.now(timezone.utc)
