"""The command `pid-quota`: lists its sub-commands, and imports only the one that is called.

So `pid-quota sql` starts without Spark and Kafka, and runs where they are not installed.
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
        "Turn decisions into Kafka client quotas, and restore them in time.",
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
    "inits": ("jobs.lifecycle.inits", "inits", "Show the outcome of requests for producer ids (KIP-360)."),
    "occupancy": (
        "jobs.occupancy.command",
        "occupancy",
        "Show what brokers hold of producers, and forecast it (KIP-854).",
    ),
    "why": ("jobs.lifecycle.why", "why", "Explain why a principal's clients make producer ids, and how to fix it."),
    "tables": ("jobs.tables.command", "app", "Create the tables, and describe what they hold."),
    "maintain": ("jobs.tables.maintain", "maintain", "Maintain the tables: expire rows, compact files, vacuum."),
    "console": ("jobs.web.command", "console", "Show the tables in the browser, on one read-only page."),
    "demo": ("jobs.demo.command", "demo", "Show it all on a real broker on this machine."),
    "demo-clients": ("jobs.demo.clients", "demo_clients", "Run the demo's producers alone, against your own broker."),
}
_HELP = "Producer id quotas (KIP-936) for unmodified Apache Kafka."


def application(called: str | None = None) -> typer.Typer:
    """Return the application with one command loaded; of the others it has the help line only.

    Args:
        called: Name of the command to load.
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
    """Run `pid-quota` with the process's arguments; return on success.

    Databricks calls this function in its own process, where any SystemExit counts as a failure.
    """
    code = run(sys.argv[1:])
    if code:
        sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run `pid-quota` and return its exit code."""
    try:
        # First: everything below imports our packages.
        require_own_packages()
    except ForeignPackageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    from jobs import terminal

    arguments = _without_debug(arguments) or ["--help"]
    called = next((argument for argument in arguments if not argument.startswith("-")), None)
    # Loading may fail, too: `terminal.run` turns that into one line.
    return terminal.run(lambda: application(called), arguments, "pid-quota")


def run_command(function: Callable[..., Any]) -> NoReturn:
    """Run one command as a program, as `python -m jobs.stream` does."""
    from jobs import terminal

    sys.exit(terminal.run(lambda: _single(function), _without_debug(sys.argv[1:])))


def _single(function: Callable[..., Any]) -> typer.Typer:
    app = typer.Typer(add_completion=False)
    app.command()(function)
    return app


def _without_debug(arguments: Sequence[str]) -> list[str]:
    from jobs import terminal

    # Accepted anywhere: people append --debug to the command that just failed.
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
    """Declare the options before the command; both are handled elsewhere."""


def _not_loaded() -> None:
    """Stand in for a command that is not loaded."""


if __name__ == "__main__":
    main()
