"""A program that starts Spark while the demo's broker starts, then runs `pid-quota stream`."""

import time
from pathlib import Path
from typing import Annotated

import typer

from jobs.cli import run_command
from jobs.demo.spark_archive import spark_archive
from jobs.stream.command import require_spark, stream

_POLL_S = 0.05
_MASTER = "local[1]"
"""The demo's Spark master. With one task at a time, one Python worker suffices, and a core remains for the broker."""


def early_stream(
    tables: str,
    checkpoint: str,
    address_file: Path,
    trigger: str = "1 second",
    note_classes: Annotated[
        Path | None, typer.Option(help="File for an archive of the classes that Spark's JVM loads.")
    ] = None,
) -> None:
    """Start Spark, wait until `address_file` holds the broker's address, and run the stream."""
    require_spark()
    from jobs.stream.running import Launch, open_session

    noted = spark_archive().options(write=False) if note_classes is None else ()
    noting = () if note_classes is None else (f"-XX:ArchiveClassesAtExit={note_classes}",)
    open_session(tables, Launch(master=_MASTER, java_options=(*noted, *noting)))
    while not address_file.exists():
        time.sleep(_POLL_S)
    stream(
        bootstrap_servers=address_file.read_text(encoding="ascii"),
        tables=tables,
        checkpoint=checkpoint,
        trigger=trigger,
        metrics_interval_seconds=0,
        enforce=True,
        master=_MASTER,
    )


if __name__ == "__main__":
    run_command(early_stream)
