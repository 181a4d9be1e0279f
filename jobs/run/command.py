"""The command `pid-quota run`."""

import os
import re
from pathlib import Path
from typing import Annotated

import typer

from jobs.options import ADDRESS, LOGIN_FILE, BootstrapServers, KafkaConfigFile, listen_address
from jobs.output.terminal import OUR_ERRORS, exit_code_of
from jobs.principals import REPEAT_NEVER, read_user
from jobs.run.log import LogFormat, RunLog
from jobs.run.settings import RunSettings
from jobs.run.supervision import supervise
from jobs.services.listening import Address, in_url, ip_of
from jobs.services.stopping import stopped_by_signals
from quota.config import QuotaConfig
from streaming.triggers import is_interval


def run(
    bootstrap_server: BootstrapServers,
    data: Annotated[str, typer.Option(envvar="PID_QUOTA_DATA", help="Folder of tables and checkpoint; one per run.")],
    kafka_config: KafkaConfigFile = None,
    quotas_file: Annotated[
        Path | None,
        typer.Option(
            envvar="PID_QUOTA_QUOTAS_FILE",
            help="File of all quotas, as `quotas --export` writes it; read again when it changes.",
        ),
    ] = None,
    trigger: Annotated[
        str, typer.Option(envvar="PID_QUOTA_TRIGGER", help="Interval of micro-batches; asap for no pause between them.")
    ] = "5 seconds",
    window_seconds: Annotated[
        int, typer.Option(envvar="PID_QUOTA_WINDOW_SECONDS", help="Length of a quota's window in seconds.")
    ] = 3600,
    enforce: Annotated[
        bool,
        typer.Option(
            "--enforce/--no-enforce",
            envvar="PID_QUOTA_ENFORCE",
            help="Hold users over their quota: their new PIDs wait.",
            show_default=False,
        ),
    ] = False,
    never: Annotated[
        list[str] | None,
        typer.Option(envvar="PID_QUOTA_NEVER", help="User that is never held, such as User:etl. Repeatable."),
    ] = None,
    max_held: Annotated[
        int, typer.Option(envvar="PID_QUOTA_MAX_HELD", min=1, help="Maximum number of users held at once.")
    ] = 10,
    console: Annotated[
        str,
        typer.Option(
            envvar="PID_QUOTA_CONSOLE",
            metavar=ADDRESS,
            help="Address of the console; any but a loopback address needs a token.",
        ),
    ] = "8080",
    console_token_file: Annotated[
        Path | None,
        typer.Option(envvar="PID_QUOTA_CONSOLE_TOKEN_FILE", help="File whose first line is the console's token."),
    ] = None,
    metrics: Annotated[
        str,
        typer.Option(
            envvar="PID_QUOTA_METRICS",
            metavar=ADDRESS,
            help="Address of /metrics, /healthz and /readyz. Metrics name principals.",
        ),
    ] = "9404",
    log_format: Annotated[
        LogFormat, typer.Option(envvar="PID_QUOTA_LOG_FORMAT", help="Form of the log's lines.")
    ] = "text",
) -> None:
    """Run the stream, the console and the upkeep of the tables, and start again what ends. Ctrl-C ends all."""
    password = os.environ.get(LOGIN_FILE)
    settings = RunSettings(
        bootstrap_server=bootstrap_server,
        data=_folder(data),
        kafka_config=_readable(kafka_config, "--command-config"),
        kafka_password_file=_readable(Path(password) if password else None, LOGIN_FILE),
        quotas_file=_readable(quotas_file, "--quotas-file"),
        trigger=trigger,
        window_seconds=window_seconds,
        enforce=enforce,
        never=tuple(read_user(each, REPEAT_NEVER) for each in never or ()),
        max_held=max_held,
        console=listen_address(console, "--console"),
        console_token_file=_readable(console_token_file, "--console-token-file"),
        metrics=listen_address(metrics, "--metrics"),
        log_format=log_format,
    )
    _check(settings)
    log = RunLog(log_format)
    stop = stopped_by_signals()

    def begun(console: Address, metrics: Address) -> None:
        log.say(f"console at http://{in_url(console)}/, metrics at http://{in_url(metrics)}/metrics")
        if settings.needs_token:
            log.say(f"the console's token is in {settings.own_token_file}")

    try:
        supervise(settings, log, stop, begun)
    except OUR_ERRORS as error:
        if log_format == "text":
            raise
        # A reader of JSON wants no line of another form.
        log.say(str(error))
        raise typer.Exit(exit_code_of(error)) from error
    finally:
        log.close()


def _check(settings: RunSettings) -> None:
    """Raise an error if a setting is wrong whatever the cluster."""
    if not all(re.fullmatch(r"\S+:\d{1,5}", each.strip()) for each in settings.bootstrap_server.split(",")):
        msg = f"--bootstrap-server {settings.bootstrap_server!r} is no list of host:port: write it like kafka-1:9092"
        raise typer.BadParameter(msg)
    (host, port), (other, other_port) = settings.console, settings.metrics
    if 0 < port == other_port and (host == other or _is_any(host) or _is_any(other)):
        msg = f"--console and --metrics have both port {port}: choose two ports"
        raise typer.BadParameter(msg)
    if not is_interval(settings.trigger):
        msg = f"--trigger {settings.trigger!r} is no interval: write it like '5 seconds', or asap"
        raise typer.BadParameter(msg)
    QuotaConfig(window_seconds=settings.window_seconds)


def _is_any(host: str) -> bool:
    """Return whether a host stands for all addresses of this machine."""
    address = ip_of(host)
    return address is not None and address.is_unspecified


def _folder(data: str) -> Path:
    # `OnceCommand` does not see a variable of the environment.
    if not data.strip():
        msg = "--data is empty: give the folder of tables and checkpoint"
        raise typer.BadParameter(msg)
    return Path(data).absolute()


def _readable(file: Path | None, option: str) -> Path | None:
    if file is None:
        return None
    try:
        file.read_bytes()
    except OSError as error:
        msg = f"{option} {file} can't be read ({error.strerror}): check the path and its permissions"
        raise typer.BadParameter(msg) from error
    return file.absolute()
