"""`pid-quota demo`: runs a broker, producers and `pid-quota run` on this machine."""

import os
import shutil
import sys
import tempfile
import threading
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jobs.demo.demo_folder import prepare_folder
from jobs.demo.interrupts import Interrupts
from jobs.demo.story import DECISIONS, decisions_table, next_commands, story
from jobs.errors import JobError
from jobs.output.terminal import output, printable
from jobs.services.stopping import until_interrupted
from jobs.stream.command import require_spark
from jvm.jar_sets import ensure_jars
from jvm.java import QUICK_JVM

if TYPE_CHECKING:
    from jobs.demo.demo_run import Result
    from jobs.demo.demo_view import DemoView

_OF_OTHERS = ("PID_QUOTA_KAFKA_", "PID_QUOTA_COMMAND_", "PID_QUOTA_CONSOLE_")
"""Variables of another installation begin so. The demo's parts must not see them."""


def demo(
    seconds: Annotated[float, typer.Option(min=5, help="Seconds of traffic.")] = 90,
    data: Annotated[
        Path, typer.Option(help="Folder of tables and checkpoint. The folder of an earlier demo is replaced.")
    ] = Path("demo-data"),
    stay: Annotated[
        bool | None,
        typer.Option(
            "--stay/--no-stay", help="Keep all but the traffic up until Ctrl-C.", show_default="on a terminal: stay"
        ),
    ] = None,
) -> None:
    """Run pid-quota and a broker on this machine: mallory, who creates a producer per message, is held; alice is not.

    The first lines show the console's address. Open this address in a browser to watch the demo.
    """
    begin = time.monotonic()
    interrupts = Interrupts()
    os.environ.setdefault(QUICK_JVM, "1")
    for name in [each for each in os.environ if each.startswith(_OF_OTHERS)]:
        del os.environ[name]
    console = output()
    require_spark()
    ensure_jars(console=console)
    prepare_folder(data)
    # Without `./`, a name with a dot would be read as catalog.schema.
    tables = f"{'' if data.is_absolute() else './'}{data / 'tables'}"
    logs = Path(tempfile.mkdtemp(prefix="pid-quota-demo-"))
    useless = False
    try:
        taken = f"[{time.monotonic() - begin:5.1f} s]"
        console.print(f"{taken} starting Apache Kafka and `pid-quota run`, which takes up to a minute", markup=False)
        from jobs.demo.demo_run import installed, make_traffic
        from jobs.demo.demo_view import DemoView

        with DemoView(console, begin=begin) as view, installed(view, data.absolute(), logs, interrupts) as installation:
            result = make_traffic(view, installation, seconds)
            useless = result.as_expected
            _report(view, result, tables)
            if result.as_expected and (stay or (stay is None and console.is_terminal and sys.stdin.isatty())):
                linger(view, installation.console)
            view.stage("stopping everything")
    finally:
        if useless:
            shutil.rmtree(logs, ignore_errors=True)
        else:
            console.print(printable(f"all logs are in {logs}"))
    if not result.as_expected:
        throttled = ", ".join(sorted(result.throttled)) or "nobody"
        msg = (
            f"expected mallory to be throttled, and alice to be seen and not throttled, but throttled: {throttled}; "
            f"seen: {', '.join(sorted(result.seen)) or 'nobody'}. Try --seconds 180"
        )
        raise JobError(msg)


def _report(view: "DemoView", result: "Result", tables: str) -> None:
    from jobs.demo.demo_run import DEFAULT_QUOTA
    from jobs.top.command import rows_table
    from tables.query.sql_query import query
    from tables.query.top_rows import arranged, read_rows

    now = datetime.now(timezone.utc)
    view.show(rows_table(arranged(read_rows(tables, now), "name")))
    view.show(decisions_table(query(tables, DECISIONS, now)))
    for sentence in story(result, DEFAULT_QUOTA):
        view.print_line(sentence)
    view.print_line("")
    view.print_line("Type next:")
    for command in next_commands(_program(), tables):
        view.print_line(f"  {command}")


def linger(view: "DemoView", console: str) -> None:
    """Keep everything up until Ctrl-C or SIGTERM."""
    with until_interrupted():
        view.stage(f"the console stays at {console}: Ctrl-C ends it")
        threading.Event().wait()


def _program() -> str:
    """Return `pid-quota`, or its path if the program is outside PATH, as after `make demo`."""
    if shutil.which("pid-quota"):
        return "pid-quota"
    program = Path(sys.executable).with_name("pid-quota")
    return str(program.relative_to(Path.cwd())) if program.is_relative_to(Path.cwd()) else str(program)
