"""Startup of the program: foreign packages with our names, and the extra to install for a missing module."""

import subprocess
import sys

import pytest

from jobs import __version__
from jobs.output.terminal import missing_extra


def test_run_has_its_signal_handlers_before_any_library_is_imported() -> None:
    code = """
import signal, sys
sys.argv[1:] = ["run"]
import jobs.__main__
libraries = {each.partition(".")[0] for each in sys.modules} - sys.stdlib_module_names
class Cli:
    def main(): print(libraries & {"typer", "rich", "broker"}, signal.getsignal(signal.SIGTERM) != signal.SIG_DFL)
sys.modules["jobs.cli"] = jobs.cli = Cli
jobs.__main__.main()
"""
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "set() True\n"


def test_a_library_of_spark_that_is_missing_is_named_with_its_extra() -> None:
    wheel = f"pid_quota-{__version__}-py3-none-any.whl"
    message = f"this command needs pandas, which is not installed: pip install '{wheel}[spark]'"
    assert missing_extra(ModuleNotFoundError(name="pandas.core")) == message


@pytest.mark.parametrize(
    "error",
    [
        ModuleNotFoundError("no name"),
        ModuleNotFoundError(name="jobs.x"),
        ModuleNotFoundError(name="duckling"),
        ImportError(name="duckdb"),
    ],
)
def test_other_errors_ask_for_none(error: ImportError) -> None:
    assert missing_extra(error) == ""
