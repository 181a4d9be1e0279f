"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from jobs.services.listening import LOOPBACK, Address

LOGIN_FILE = "PID_QUOTA_KAFKA_PASSWORD_FILE"
"""Environment variable with a file whose first line is `sasl.password`, for all commands."""

_SERVERS = typer.Option(
    "--bootstrap-server",
    envvar="PID_QUOTA_BOOTSTRAP_SERVER",
    help="Brokers, as host:port,host:port.",
    show_default=False,
)
BootstrapServers = Annotated[str, _SERVERS]
OptionalServers = Annotated[str | None, _SERVERS]
AskedServers = Annotated[
    str | None,
    # Without its variable: to ask brokers takes longer, so it is a choice of each call.
    typer.Option("--bootstrap-server", help="Also ask these brokers, as host:port,host:port.", show_default=False),
]
KafkaConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        envvar="PID_QUOTA_COMMAND_CONFIG",
        help="Client settings: a file of name=value lines or of Java properties, or secret:SCOPE/KEY on Databricks.",
    ),
]
_TABLES = typer.Option(
    "--tables",
    envvar="PID_QUOTA_TABLES",
    help="Folder of Delta tables, or catalog.schema.",
    show_default=False,
)
TablesOption = Annotated[str, _TABLES]
OptionalTables = Annotated[str | None, _TABLES]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
ADDRESS = "[HOST:]PORT"
"""Metavar of an address to listen on."""


def listen_address(text: str, option: str) -> Address:
    """Return the host, by default the loopback address, and the port of an address to listen on.

    Raises:
        BadParameter: If it has no port.

    Examples:
        >>> listen_address("9404", "--metrics"), listen_address("[::]:0", "--metrics")
        (('127.0.0.1', 9404), ('::', 0))
    """
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) <= 65_535):
        msg = f"{option} {text!r} has no port: write it like 9404 or 0.0.0.0:9404"
        raise typer.BadParameter(msg)
    return host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port)


def first_line(file: Path) -> str:
    """Return the first line of a file without blanks around it; empty if there is none.

    Raises:
        OSError: If the file can't be read.
    """
    first, *_ = file.read_text(encoding="utf-8", errors="replace").splitlines() or [""]
    return first.strip()
