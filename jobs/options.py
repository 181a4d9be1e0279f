"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

SERVERS = ("--bootstrap-servers", "--bootstrap-server")
"""Names of the option with the brokers' addresses. Kafka's tools use the second name."""
LOOPBACK = "127.0.0.1"

BootstrapServers = Annotated[
    str,
    typer.Option(*SERVERS, envvar="PID_QUOTA_BOOTSTRAP_SERVER", help="Brokers, as host:port,host:port."),
]
KafkaConfigFile = Annotated[
    Path | None,
    typer.Option(
        *("--kafka-config", "--command-config"),
        envvar="PID_QUOTA_KAFKA_CONFIG",
        help="Client settings: name=value lines with librdkafka's names, or a Java properties file.",
    ),
]
KafkaPasswordFile = Annotated[
    Path | None,
    typer.Option(
        envvar="PID_QUOTA_KAFKA_PASSWORD_FILE", help="File whose first line is sasl.password, instead of the settings'."
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
CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV, for programs and spreadsheets.")]
PrincipalOption = Annotated[str | None, typer.Option(help="Show only this principal, such as User:alice.")]
StaleSeconds = Annotated[float, typer.Option(min=1, help="Warn if the newest row is older than this.")]
TopicOption = Annotated[str, typer.Option(help="Topic of produce events.")]
MetricsPort = Annotated[
    int | None,
    typer.Option(min=0, max=65_535, help="Port of Prometheus metrics, /healthz and /readyz; 0 selects a free port."),
]
MetricsHost = Annotated[
    str, typer.Option(help="Address to serve metrics on. Metrics name principals and need no password.")
]


def full_name(principal: str) -> str:
    """Return a principal with a type, by default `User`."""
    return principal if ":" in principal else f"User:{principal}"


def one_user(principal: str) -> str:
    """Return a principal that is one user.

    Raises:
        BadParameter: If it is not: the type must be written, since names may contain colons.

    Examples:
        >>> one_user("User:system:serviceaccount:ns:app")
        'User:system:serviceaccount:ns:app'
    """
    kind, _, name = principal.partition(":")
    is_several = ";" in name or ",User:" in name
    if kind != "User" or not name or name != name.strip() or is_several or name in ("*", "ANONYMOUS"):
        msg = f"{principal!r} is not one user: write the whole principal, such as User:alice"
        raise typer.BadParameter(msg)
    return principal


def first_line(file: Path) -> str:
    """Return the first line of a file without blanks around it; empty if there is none.

    Raises:
        OSError: If the file can't be read.
    """
    first, *_ = file.read_text(encoding="utf-8", errors="replace").splitlines() or [""]
    return first.strip()
