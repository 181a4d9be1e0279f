"""Terminal output of all commands: consoles, printable text, and one-line errors."""

import os
import sys
import traceback
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from broker.errors import BrokerError, KafkaConfigError, RequestNotAllowedError
from jobs.errors import JobError, WrongSettingError
from jvm.errors import JarsError, JavaError, JvmError
from quota.errors import InvalidConfigError, QuotaError
from state.errors import StateError
from streaming.errors import (
    CheckpointError,
    CheckpointInUseError,
    SessionError,
    SparkMissingError,
    StreamingError,
    WindowTooShortError,
)
from tables.errors import TablesError, TableVersionError, install_command

OUR_ERRORS = (BrokerError, JobError, JvmError, QuotaError, StateError, StreamingError, TablesError)

SETTING_ERRORS = (
    CheckpointError,
    InvalidConfigError,
    JarsError,
    JavaError,
    KafkaConfigError,
    RequestNotAllowedError,
    SessionError,
    SparkMissingError,
    TableVersionError,
    WindowTooShortError,
    WrongSettingError,
)
"""Errors that last until a person changes a setting, a right or an installation.

A refused login is none of them: somebody may be about to change the password, here or on the brokers.
"""

_COMMAND_LINE_ERROR: Any = typer.BadParameter.__mro__[2]
"""click's base error, which typer does not export."""

_WIDTH_OF_A_PIPE = 10_000
"""Width of piped output."""

WRONG_SETTING = 2
"""Exit code of a wrong option, as of click, and of `SETTING_ERRORS`: another start does not help."""

INTERRUPTED = 130
"""Exit code that shells report after Ctrl-C."""

OF_SPARK = frozenset({"delta", "pandas", "pyspark"})
"""Modules that the `spark` extra of `pyproject.toml` installs."""

_debug = {"wanted": False}


def output() -> Console:
    """Return a console on standard output that never wraps or truncates piped output."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH_OF_A_PIPE)


def printable(value: object) -> Text:
    r"""Return a value as text with escaped control characters, since clients choose client ids and principals freely.

    Examples:
        >>> printable("bob\x1b[2J[red]").plain
        'bob\\x1b[2J[red]'
    """
    text = str(value)
    if not text.isprintable():
        text = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return Text(text)


def want_debug(wanted: bool) -> None:
    """Set whether to show stack traces (`--debug`)."""
    _debug["wanted"] = wanted


def debug_wanted() -> bool:
    """Return whether to show stack traces."""
    return _debug["wanted"]


def run(load: Callable[[], typer.Typer], arguments: Sequence[str], name: str | None = None) -> int:
    """Run the application of `load`, and return its exit code. Print a failure as one line on standard error."""
    try:
        code = typer.main.get_command(load()).main(args=list(arguments), prog_name=name, standalone_mode=False)
    except _COMMAND_LINE_ERROR as error:
        message = _plain_message(error).rstrip(".")
        return _fail(error, f"{message}{'' if message.endswith('?') else '.'} See --help", error.exit_code)
    except OUR_ERRORS as error:
        return _fail(error, str(error), exit_code_of(error))
    except BrokenPipeError:
        # The reader closed the pipe, as in `pid-quota sql … | head`. Discard what the interpreter flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:  # any other error is printed as one line, too
        if needs := missing_extra(error):
            return _fail(error, needs, WRONG_SETTING)
        if type(error).__name__ == "KafkaException" and error.args[0].name() == "_INVALID_ARG":
            # Compare by name, because an import of Kafka's client takes long.
            message = f"Kafka's client rejects its settings ({error.args[0].str()}): check --command-config"
            return _fail(error, message, WRONG_SETTING)
        return _fail(error, f"{type(error).__name__}: {error}. This is a bug: repeat with --debug and report it", 1)
    if code == INTERRUPTED:
        _clear_interrupt()
        # Newer versions of typer return an exit code for Ctrl-C. Older versions raise an exception.
        print("error: interrupted", file=sys.stderr)
    return code if isinstance(code, int) else 0


def _plain_message(error: Any) -> str:
    """Return the message of an error of the command line. Of a wrong value, newer versions of typer quote a library."""
    find_faults = getattr(error.__cause__, "errors", None)
    if find_faults is not None:
        fault = find_faults()[0]
        said = fault["msg"].removeprefix("Value error, ").partition(", unable to")[0]
        error.message = said.replace("Input should", f"{fault['input']!r} should")
    text: str = error.format_message()
    return text


def exit_code_of(error: Exception) -> int:
    """Return the exit code of one of our errors.

    Examples:
        >>> exit_code_of(KafkaConfigError()), exit_code_of(CheckpointInUseError()), exit_code_of(BrokerError())
        (2, 1, 1)
    """
    is_setting = isinstance(error, SETTING_ERRORS) and not isinstance(error, CheckpointInUseError)
    return WRONG_SETTING if is_setting else 1


def _clear_interrupt() -> None:
    """Clear the flag that CPython sets if Ctrl-C arrives while `dataclass` executes generated code.

    With this flag, `python -m` would ignore the exit code. Creating a named tuple evaluates code and clears the flag.
    """
    namedtuple("_Cleared", ())


def _fail(error: BaseException, message: str, code: int) -> int:
    if debug_wanted():
        traceback.print_exception(error, file=sys.stderr)
    print(f"error: {one_line(message)}", file=sys.stderr)
    return code


def one_line(message: str) -> str:
    r"""Return a message on one line, with escaped control characters.

    Examples:
        >>> one_line("a\n  b\x1b")
        'a b\\x1b'
    """
    return printable(" ".join(message.split())).plain


def missing_extra(error: BaseException) -> str:
    """If `error` means that a library of the `spark` extra is missing, return what to install; else an empty text."""
    module = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if module not in OF_SPARK:
        return ""
    return f"this command needs {module}, which is not installed: {install_command('spark')}"
