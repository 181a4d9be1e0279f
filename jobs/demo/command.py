"""`pid-quota demo`: a real broker, real producers, the tap and the stream, on this machine, in two minutes."""

import json
import shutil
import signal
import sys
import tempfile
import threading
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from broker.jars.jar_sets import ensure_jars
from jobs.demo.demo_console import DemoConsole
from jobs.demo.demo_run import DRAIN_S, Result, run
from jobs.demo.demo_view import DemoView, principals_table
from jobs.demo.processes import prepare_folder
from jobs.errors import DemoError
from jobs.tables_out import JsonOption, to_json, to_table
from jobs.terminal import output, printable
from tables.delta import create_missing
from tables.query.sql_query import query

_DECISIONS = "SELECT principal, action, refused_pids, throttle_time_ms FROM throttle_decisions"


def demo(
    seconds: Annotated[float, typer.Option(min=5, help="Seconds of traffic.")] = 90,
    tables: Annotated[Path, typer.Option(help="Folder of the tables; an earlier demo's is replaced.")] = Path(
        "demo-data"
    ),
    keep: Annotated[bool, typer.Option("--keep", help="Keep the folder with the broker and all logs.")] = False,
    stay: Annotated[
        bool | None,
        typer.Option(
            "--stay/--no-stay", help="Keep the console up at the end, until Ctrl-C.", show_default="on a terminal: stay"
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show everything on this machine: mallory, who makes a producer per message, is throttled; alice is not.

    The first line is the console's address: watch it in a browser.
    """
    # SIGTERM has to stop our child processes, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console(stderr=True, highlight=False) if as_json else output()
    ensure_jars(console=console)
    prepare_folder(tables)
    # A bare name with a dot would mean catalog.schema.
    tables_text = str(tables) if tables.is_absolute() else f"./{tables}"
    folder = Path(tempfile.mkdtemp(prefix="pid-quota-demo-"))
    useless = False
    try:
        create_missing(tables_text)
        with DemoView(console) as view, DemoConsole(tables_text) as page:
            view.stage(f"watch it in a browser: {page.address}")
            view.stage(f"mallory's line:        {page.page_of('User:mallory')}")
            result = run(view, folder, tables_text, seconds)
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
        msg = f"expected mallory alone to be throttled, but these were: {throttled}. Try --seconds 180"
        raise DemoError(msg)


def _as_json(result: Result, tables: str) -> str:
    decisions = json.loads(to_json(query(tables, f"{_DECISIONS} ORDER BY decided_at", _now())))
    record = {**asdict(result), "throttled": sorted(result.throttled), "decisions": decisions}
    return json.dumps(record, ensure_ascii=False, indent=2, default=datetime.isoformat)


def _report(view: DemoView, result: Result, tables: str) -> None:
    view.show(principals_table(result.principals, "Principals"))
    view.show(to_table(query(tables, f"{_DECISIONS} ORDER BY decided_at", _now())))
    if not result.drained:
        view.stage(f"the stream had not caught up {DRAIN_S:g} s after the traffic: the numbers are not final")
    first = "none" if result.first_decision_s is None else f"{result.first_decision_s:.1f} s"
    view.stage(f"first decision after {first} of traffic, {view.seconds:.0f} s in all. Query the tables yourself:")
    view.stage(f'{_program()} sql --tables {tables} "{_DECISIONS}"')


def linger(view: DemoView, page: DemoConsole) -> None:
    """Keep the console up until Ctrl-C or SIGTERM."""
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler)
        view.stage(f"the console stays at {page.address}: Ctrl-C ends it")
        threading.Event().wait()
    except KeyboardInterrupt:
        # The user ends it this way.
        return


def _program() -> str:
    """Return how to call `pid-quota`: `make demo` installs it in a virtual environment that is not on PATH."""
    if shutil.which("pid-quota"):
        return "pid-quota"
    program = Path(sys.executable).with_name("pid-quota")
    return str(program.relative_to(Path.cwd())) if program.is_relative_to(Path.cwd()) else str(program)


def _now() -> datetime:
    return datetime.now(timezone.utc)
