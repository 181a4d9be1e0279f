"""The command lines of the children of `pid-quota run`."""

from jobs.run.children import Command
from jobs.run.settings import RunSettings, environment
from jobs.services.listening import CONSOLE_FD, LOOPBACK, METRICS_FD, in_url, ip_of


def stream(settings: RunSettings, listener: int) -> Command:
    """Return the stream's command. It serves metrics and probes on an inherited socket."""
    arguments = [
        *_pid_quota("stream", *_brokers(settings)),
        *_tables(settings),
        *("--checkpoint", str(settings.checkpoint)),
        *("--trigger", settings.trigger),
        *("--window-seconds", str(settings.window_seconds)),
        *("--max-held", str(settings.max_held)),
        "--enforce" if settings.enforce else "--no-enforce",
    ]
    for each in settings.never:
        arguments += ["--never", each]
    if _has_lost_checkpoint(settings):
        arguments.append("--new-checkpoint")
    variables = environment(settings, "stream", **{METRICS_FD: str(listener)})
    return Command((*arguments, *settings.more_stream_options), variables, (listener,))


def _has_lost_checkpoint(settings: RunSettings) -> bool:
    """Return whether the checkpoint is gone, but not the rows. `run` has locked the folder for its own stream."""
    is_empty = not settings.checkpoint.is_dir() or not any(settings.checkpoint.iterdir())
    return is_empty and any((settings.tables / "producer_id_metrics").rglob("*.parquet"))


def console(settings: RunSettings, listener: int) -> Command:
    """Return the console's command. It listens on an inherited socket."""
    arguments = [*_pid_quota("console", *_tables(settings)), "--listen", in_url(settings.console)]
    if settings.console_token_file is not None:
        arguments += ["--token-file", str(settings.console_token_file)]
    variables = environment(settings, "console", **{CONSOLE_FD: str(listener)})
    return Command(tuple(arguments), variables, (listener,))


def create_tables(settings: RunSettings) -> Command:
    """Return the command that creates missing tables."""
    return _task(settings, "tables", "tables", "create", *_tables(settings))


def set_quotas(settings: RunSettings) -> Command:
    """Return the command that makes the quotas those of the file."""
    arguments = ("quotas", *_tables(settings), "--import", str(settings.quotas_file), "--prune")
    return _task(settings, "quotas", *arguments)


def maintain(settings: RunSettings) -> Command:
    """Return the command of the tables' upkeep."""
    return _task(settings, "maintain", "tables", "maintain", *_tables(settings))


def census(settings: RunSettings) -> Command:
    """Return the command that writes who holds producer ids into the tables."""
    return _task(settings, "census", "occupancy", *_brokers(settings), *_tables(settings))


def look(settings: RunSettings) -> Command:
    """Return the command that looks for the brokers and their plugins."""
    return Command(("-m", "jobs.run.look", *_brokers(settings)), environment(settings, "look"))


def _task(settings: RunSettings, name: str, *arguments: str) -> Command:
    return Command(_pid_quota(*arguments), environment(settings, name))


def _pid_quota(*arguments: str) -> tuple[str, ...]:
    return ("-m", "jobs", *arguments)


def _tables(settings: RunSettings) -> tuple[str, ...]:
    return ("--tables", str(settings.tables))


def _brokers(settings: RunSettings) -> tuple[str, ...]:
    arguments = ("--bootstrap-server", settings.bootstrap_server)
    return arguments if settings.kafka_config is None else (*arguments, "--command-config", str(settings.kafka_config))


def probed(host: str) -> str:
    """Return the address to ask a server that listens on `host`.

    Examples:
        >>> probed("0.0.0.0"), probed("::"), probed("10.1.2.3")
        ('127.0.0.1', '::1', '10.1.2.3')
    """
    address = ip_of(host)
    if address is None or not address.is_unspecified:
        return host
    return LOOPBACK if address.version == 4 else "::1"
