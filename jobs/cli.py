"""The command `pid-quota`: names its commands, and loads only the one that is called.

So `pid-quota sql` starts without Spark and Kafka, and works where they are not installed.
"""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer

from jobs import __version__
from jobs.errors import ForeignPackageError
from jobs.own_packages import require_own_packages

_COMMANDS = {
    "stream": ("jobs.stream.command", "stream", "Run the stream: produce events from Kafka to decisions and metrics."),
    "tap": ("jobs.tap.command", "app", "Turn a broker's log into produce events."),
    "enforce": (
        "jobs.enforcement.command",
        "enforce",
        "Turn decisions into Kafka client quotas, and take them back in time.",
    ),
    "topics": ("jobs.topics", "topics", "Set up the topics and who may use them."),
    "quotas": ("jobs.quotas.command", "quotas", "Set, delete and describe quotas."),
    "suggest-quotas": ("jobs.quotas.suggest", "suggest_quotas", "Suggest a quota per user from history."),
    "top": ("jobs.top.command", "top", "Watch the principals live in a terminal, without a JVM."),
    "sql": ("jobs.tables.sql_command", "sql", "Query the tables and views, without a JVM."),
    "blocks": (
        "jobs.lifecycle.blocks",
        "blocks",
        "Audit the blocks of producer ids that brokers were given (KIP-730).",
    ),
    "inits": ("jobs.lifecycle.inits", "inits", "Show what came of requests for producer ids (KIP-360)."),
    "occupancy": (
        "jobs.occupancy.command",
        "occupancy",
        "Show what brokers hold of producers, and forecast it (KIP-854).",
    ),
    "why": ("jobs.lifecycle.why", "why", "Say why a principal's clients make producer ids, and how to mend it."),
    "tables": ("jobs.tables.command", "app", "Make the tables, and say what they hold."),
    "maintain": ("jobs.tables.maintain", "maintain", "Keep the tables small: old rows, small files, old versions."),
    "console": ("jobs.web.command", "console", "Show the tables in the browser, on one page that only reads."),
    "demo": ("jobs.demo.command", "demo", "Show it all on a real broker on this machine."),
    "demo-clients": ("jobs.demo.clients", "demo_clients", "The demo's producers alone, for a broker of yours."),
}
_HELP = "Producer id quotas (KIP-936) for unmodified Apache Kafka."


def application(called: str | None = None) -> typer.Typer:
    """Make the application with the code of one command loaded; the others only have their line in the help.

    Args:
        called: Name of the command that will run.
    """
    app = typer.Typer(help=_HELP, add_completion=False)
    app.callback()(_root)
    for name, (module, function, summary) in _COMMANDS.items():
        if name == called:
            loaded = getattr(import_module(module), function)
            if isinstance(loaded, typer.Typer):
                app.add_typer(loaded, name=name, help=summary)
            else:
                app.command(name)(loaded)
        else:
            app.command(name, help=summary)(_not_loaded)
    return app


def main() -> None:
    """Run `pid-quota` with the process's arguments; returns if all went well.

    Databricks calls this function in a process of its own, where any SystemExit counts as a failure.
    """
    code = run(sys.argv[1:])
    if code:
        sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run `pid-quota` and return its exit code."""
    try:
        # Before anything else of ours is imported.
        require_own_packages()
    except ForeignPackageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    from jobs import terminal

    arguments = _without_debug(arguments) or ["--help"]
    called = next((argument for argument in arguments if not argument.startswith("-")), None)
    # The module itself may fail to load, so that has to happen where errors become one line.
    return terminal.run(lambda: application(called), arguments, "pid-quota")


def run_command(function: Callable[..., Any]) -> NoReturn:
    """Run one command as a program of its own, as `python -m jobs.stream` does."""
    from jobs import terminal

    sys.exit(terminal.run(lambda: _single(function), _without_debug(sys.argv[1:])))


def _single(function: Callable[..., Any]) -> typer.Typer:
    app = typer.Typer(add_completion=False)
    app.command()(function)
    return app


def _without_debug(arguments: Sequence[str]) -> list[str]:
    from jobs import terminal

    # People append --debug to the command that just failed, so it is taken wherever it stands.
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
    """Take the options before the command; both have done their work by now."""


def _not_loaded() -> None:
    """Stand in for a command that is not called."""


if __name__ == "__main__":
    main()
