"""The command `pid-quota`, which imports a sub-command only when you call it.

So `pid-quota sql` starts without Spark and Kafka's client.
"""

import importlib.util
import re
import sys
import textwrap
from collections.abc import Callable, Sequence
from importlib import import_module, metadata
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from jobs import __version__
from jobs.errors import JobError
from jobs.once import OnceCommand

_COMMANDS = {
    "run": ("run.command", "run", "Run pid-quota: the stream, the console and the upkeep of the tables."),
    "stream": ("stream.command", "stream", "Run the stream: produce events from Kafka to decisions and metrics."),
    "console": ("web.command", "console", "Show the tables in the browser."),
    "broker-jar": ("setup.broker_jar", "write_broker_jar", "Write the jar of the plugin, which brokers load."),
    "plugin": ("setup.plugin", "plugin", "Load the plugin into running brokers, or unload it."),
    "topics": ("setup.command", "topics", "Create or delete the topics, and a user's rights to read them."),
    "doctor": ("setup.doctor", "doctor", "Check the deployment, and show how to fix problems."),
    "quotas": ("quotas.command", "quotas", "Set, delete, describe and suggest quotas."),
    "release": ("enforcement.command", "release", "End the hold of a user, or all holds, on the brokers."),
    "hold": ("enforcement.command", "hold", "Let a user's new producer ids wait for a few minutes."),
    "top": ("top.command", "top", "Watch the principals live in a terminal; needs no JVM."),
    "sql": ("tables.sql_command", "sql", "Query or follow the tables and views; needs no JVM."),
    "why": ("lifecycle.why", "why", "Explain why a principal's clients make producer ids, and how to fix it."),
    "occupancy": (
        "occupancy.command",
        "occupancy",
        "Show the producer state in brokers' memory, and forecast it (KIP-854).",
    ),
    "tables": ("tables.command", "app", "Create the tables, and maintain them: expire, compact, vacuum."),
    "demo": (
        "demo.command",
        "demo",
        "Run everything on this machine: a real broker, producers, stream and console.",
    ),
}
"""Each command's module below `jobs`, function or typer group, and help line."""
OWN = ("wire", "quota", "lifecycle", "state", "tables", "broker", "streaming", "sql", "jvm")
_HOME = Path(__file__).resolve().parents[1]
_HELP = "Producer id quotas (KIP-936) for unmodified Apache Kafka."
# Help lines must not break at hyphens, as in `--entity-name`, and typer has no setting against such breaks.
textwrap.TextWrapper.wordsep_re = textwrap.TextWrapper.wordsep_simple_re
_STYLE: dict[str, Any] = {"context_settings": {"help_option_names": ["-h", "--help"]}, "rich_markup_mode": None}
"""Settings of each typer application. Help has no frames, because frames truncate long option names."""


_COMMENT = re.compile(r"--\s|--[^=\n]*\n")


class LazyGroup(TyperGroup):
    """A typer group that imports a command when a user calls it or the shell completes its options."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command that `args` names."""
        if args[0] in _COMMANDS:
            self.commands[args[0]] = load_command(args[0])
        if args[0] == "sql":
            # typer takes `--` for an option, so put a line break before a query that begins with an SQL comment.
            args = [f"\n{each}" if _COMMENT.match(each) else each for each in args]
        return super().resolve_command(ctx, args)


def application() -> typer.Typer:
    """Return an application whose commands are not imported yet."""
    app = typer.Typer(cls=LazyGroup, help=_HELP, **_STYLE)
    app.callback()(_root)
    for name, (_, _, summary) in _COMMANDS.items():
        app.command(name, short_help=summary)(_not_loaded)
    return app


def load_command(name: str) -> Any:
    """Import a command, or a group of commands."""
    module, function, summary = _COMMANDS[name]
    loaded = getattr(import_module(f"jobs.{module}"), function)
    app = typer.Typer(add_completion=False, **_STYLE)
    if isinstance(loaded, typer.Typer):
        app.add_typer(loaded, name=name, help=summary)
    else:
        app.command(name, cls=OnceCommand)(loaded)
    command = typer.main.get_group(app).commands[name]
    for each in getattr(command, "commands", {}).values():
        # typer truncates the long help if there is no short help.
        each.short_help = each.help.split("\n\n")[0].replace("\n", " ")
    return command


def main() -> None:
    """Run `pid-quota` with the process's arguments. Raise SystemExit only on failure.

    In Databricks, SystemExit counts as a failure even with code 0.
    """
    code = run(sys.argv[1:])
    if code:
        sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run `pid-quota` and return its exit code."""
    try:
        # Check before anything imports this project's packages.
        require_own_packages()
    except JobError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    from jobs.output import terminal

    return terminal.run(application, _without_debug(arguments) or ["--help"], "pid-quota")


def require_own_packages() -> None:
    """Raise `JobError` if another library's package shadows a package of this project."""
    for name in OWN:
        spec = importlib.util.find_spec(name)
        origin = Path(spec.origin).resolve() if spec and spec.origin else None
        if origin is None or origin.parents[1] != _HOME:
            owners = metadata.packages_distributions().get(name, [])
            owner = ", ".join(sorted(set(owners) - {"pid-quota"})) or "no library"
            msg = (
                f"package {name!r} comes from {origin or 'nowhere'} (of {owner}), not from {_HOME / name}. "
                "Install pid-quota as a library of the job, which comes before the runtime's packages"
            )
            raise JobError(msg)


def run_command(function: Callable[..., Any]) -> NoReturn:
    """Run one command as a program, such as `python -m jobs.stream`."""
    from jobs.output import terminal

    app = typer.Typer(add_completion=False, **_STYLE)
    app.command(cls=OnceCommand)(function)
    sys.exit(terminal.run(lambda: app, _without_debug(sys.argv[1:])))


def _without_debug(arguments: Sequence[str]) -> list[str]:
    from jobs.output import terminal

    # Accept --debug anywhere, because people append --debug to a failed command.
    terminal.want_debug("--debug" in arguments)
    return [argument for argument in arguments if argument != "--debug"]


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pid-quota {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the stack trace of an error.")] = False,
) -> None:
    """Declare `--version` and `--debug`, which `_show_version` and `_without_debug` handle."""


def _not_loaded() -> None:
    """Placeholder for a command that is not loaded."""
