"""`pid-quota demo`: runs a broker, producers and the stream on this machine.

Spark takes longest to start, so Spark's process starts before most imports.
"""

import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from jobs.demo.processes import ADDRESS_FILE, CHECKPOINT, Child, prepare_folder
from jobs.demo.story import DECISIONS, decisions_table, next_commands, story
from jobs.errors import JobError
from jobs.options import JsonOption
from jobs.output.json_out import print_json
from jobs.output.terminal import output, printable
from jobs.services.stopping import until_interrupted
from jvm.jar_sets import ensure_jars
from jvm.java import QUICK_JVM

if TYPE_CHECKING:
    from jobs.demo.demo_console import DemoConsole
    from jobs.demo.demo_run import Result
    from jobs.demo.demo_view import DemoView


def demo(
    seconds: Annotated[float, typer.Option(min=5, help="Seconds of traffic once Spark runs.")] = 90,
    tables: Annotated[
        Path, typer.Option(help="Folder of the tables. The folder of an earlier demo is replaced.")
    ] = Path("demo-data"),
    keep: Annotated[bool, typer.Option("--keep", help="Keep the folder of the broker and all logs.")] = False,
    stay: Annotated[
        bool | None,
        typer.Option(
            "--stay/--no-stay", help="Keep the console up at the end, until Ctrl-C.", show_default="on a terminal: stay"
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run all of pid-quota on this machine: mallory, who creates a producer per message, is throttled; alice is not.

    The first lines show the console's address. Open this address in a browser to watch the demo.
    """
    begin = time.monotonic()
    # SIGTERM has to stop the child processes, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.environ.setdefault(QUICK_JVM, "1")
    console = Console(stderr=True, highlight=False) if as_json else output()
    ensure_jars(console=console)
    prepare_folder(tables)
    # Without `./`, a name with a dot would be read as catalog.schema.
    tables_text = str(tables) if tables.is_absolute() else f"./{tables}"
    folder = Path(tempfile.mkdtemp(prefix="pid-quota-demo-"))
    useless = False
    try:
        places = [tables_text, str(folder / CHECKPOINT), str(folder / ADDRESS_FILE)]
        with Child("stream", ["-m", "jobs.demo.early_stream", *places], folder / "stream.log") as stream:
            console.print(
                f"[{time.monotonic() - begin:5.1f} s] starting Spark, which takes about 10 s, and Apache Kafka",
                markup=False,
                soft_wrap=True,
            )
            from jobs.demo.demo_console import DemoConsole
            from jobs.demo.demo_run import run
            from jobs.demo.demo_view import DemoView

            with DemoView(console, begin=begin) as view, DemoConsole(tables_text) as page:

                def open_console() -> None:
                    page.open()
                    view.stage(f"watch it in a browser: {page.address}")
                    view.stage(f"mallory's page:        {page.page_of('User:mallory')}")

                result = run(view, folder, tables_text, seconds, stream=stream, open_console=open_console)
                if as_json:
                    _print_json(result, tables_text)
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
        msg = (
            f"expected mallory to be throttled, and alice to be seen and not throttled, but throttled: {throttled}; "
            f"seen: {', '.join(sorted(row.principal for row in result.principals)) or 'nobody'}. Try --seconds 180"
        )
        raise JobError(msg)


def _print_json(result: "Result", tables: str) -> None:
    from tables.query.sql_query import query

    decisions = query(tables, DECISIONS, datetime.now(timezone.utc)).records()
    print_json({**asdict(result), "throttled": sorted(result.throttled), "decisions": decisions}, indent=2)


def _report(view: "DemoView", result: "Result", tables: str) -> None:
    from jobs.demo.demo_run import DEFAULT_QUOTA, DRAIN_S
    from jobs.demo.demo_view import principals_table
    from tables.query.sql_query import query

    view.show(principals_table(result.principals, "Principals"))
    view.show(decisions_table(query(tables, DECISIONS, datetime.now(timezone.utc))))
    if not result.drained:
        view.print_line(f"The stream had not caught up {DRAIN_S:g} s after the traffic: the numbers are not final.")
    for sentence in story(result, DEFAULT_QUOTA):
        view.print_line(sentence)
    view.print_line("")
    view.print_line("Type next:")
    for command in next_commands(_program(), tables):
        view.print_line(f"  {command}")


def linger(view: "DemoView", page: "DemoConsole") -> None:
    """Keep the console up until Ctrl-C or SIGTERM."""
    with until_interrupted():
        view.stage(f"the console stays at {page.address}: Ctrl-C ends it")
        threading.Event().wait()


def _program() -> str:
    """Return `pid-quota`, or its path if the program is outside PATH, as after `make demo`."""
    if shutil.which("pid-quota"):
        return "pid-quota"
    program = Path(sys.executable).with_name("pid-quota")
    return str(program.relative_to(Path.cwd())) if program.is_relative_to(Path.cwd()) else str(program)
