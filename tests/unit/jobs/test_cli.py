"""The root of `pid-quota`: help, version, and every error in one line with the right exit code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from jobs.cli import _COMMANDS
from jobs.errors import JobError
from jobs.output import terminal
from tests.kits.command_kit import PidQuota, one_error, printed


def test_the_version_is_shown(pid_quota: PidQuota) -> None:
    from jobs import __version__

    assert pid_quota("--version") == (0, f"pid-quota {__version__}\n", "")


def test_without_arguments_the_help_names_every_command(pid_quota: PidQuota) -> None:
    out = printed(pid_quota())
    assert all(command in out for command in _COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nope",), "No such command 'nope'"),
        (("--nope",), "--nope"),
        (("sql", "--tables", "tables"), "SELECT"),
        (("sql", "SELECT 1"), "--tables"),
        (("sql", "--tables"), "--tables"),
        (("plugin", "load", "one", "--bootstrap-server", "b:1"), "'BROKER_ID': 'one' should be a valid integer. See"),
        (("plugin", "switch", "--bootstrap-server", "b:1"), "'action': 'switch' is not one of 'load', 'unload'. See"),
        (("demo", "--seconds", "0"), "'--seconds': '0' should be greater than or equal to 5. See"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_code_2(
    pid_quota: PidQuota, arguments: tuple[object, ...], message: str
) -> None:
    err = one_error(pid_quota(*arguments), 2)
    assert message in err
    assert "--help" in err


def application_raising(error: BaseException) -> typer.Typer:
    app = typer.Typer()

    @app.command()
    def fail() -> None:
        raise error

    return app


@pytest.mark.parametrize("error_class", [*terminal.OUR_ERRORS])
def test_an_error_of_each_of_our_trees_is_one_line_and_exit_code_1(
    capsys: pytest.CaptureFixture[str], error_class: type[Exception]
) -> None:
    code = terminal.run(lambda: application_raising(error_class("tables\nare gone. Bring\n  them back")), [])
    assert one_error((code, *capsys.readouterr())) == "error: tables are gone. Bring them back\n"


def test_a_bug_is_one_line_that_names_the_option_debug(capsys: pytest.CaptureFixture[str]) -> None:
    code = terminal.run(lambda: application_raising(ZeroDivisionError("division by zero")), [])
    assert "--debug" in one_error((code, *capsys.readouterr()))


def test_ctrl_c_is_one_line_and_exit_code_130(capsys: pytest.CaptureFixture[str]) -> None:
    code = terminal.run(lambda: application_raising(KeyboardInterrupt()), [])
    one_error((code, *capsys.readouterr()), 130)


def test_ctrl_c_while_a_dataclass_is_made_is_exit_code_130_also_for_a_module(tmp_path: Path) -> None:
    # `dataclass` runs strings. CPython remembers a Ctrl-C in one, even when it is caught, and `python -m` dies of it.
    (tmp_path / "interrupted.py").write_text(
        "import sys\n"
        "from jobs.output import terminal\n"
        "def load(): exec('raise KeyboardInterrupt')\n"
        "sys.exit(terminal.run(load, []))\n",
        encoding="ascii",
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(__file__).parents[3])])}
    command = [sys.executable, "-m", "interrupted"]

    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")


def test_control_characters_in_an_error_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.run(lambda: application_raising(JobError("topic \x1b[2J")), [])
    assert "\x1b" not in capsys.readouterr().err


def program(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "jobs", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


def test_the_program_s_exit_code_and_streams(tmp_path: Path) -> None:
    done = program("sql", "SELECT * FROM throttle_decisions", PID_QUOTA_TABLES=str(tmp_path))
    assert "--tables" in one_error((done.returncode, done.stdout, done.stderr))


@pytest.mark.parametrize("place", ["first", "last"])
def test_debug_shows_the_trace_before_the_line(tmp_path: Path, place: str) -> None:
    arguments = ["sql", "--tables", tmp_path, "SELECT * FROM throttle_decisions"]
    done = program(*(["--debug", *arguments] if place == "first" else [*arguments, "--debug"]))
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: no table throttle_decisions")


def test_a_password_in_a_settings_file_is_never_shown(tmp_path: Path) -> None:
    settings = tmp_path / "client.properties"
    settings.write_text("sasl.username=stream\nsasl.password=hunter2\nthis is no setting hunter2\n", encoding="utf-8")
    server = ("--bootstrap-server", "127.0.0.1:1", "--command-config", settings)

    done = program("--debug", "doctor", *server)

    assert done.returncode == 2
    assert "hunter2" not in done.stdout + done.stderr


def stream_arguments(tmp_path: Path) -> tuple[object, ...]:
    return ("stream", "--bootstrap-server", "127.0.0.1:1", "--tables", tmp_path / "t", "--checkpoint", tmp_path / "c")


def test_no_java_is_one_line_for_the_stream(
    pid_quota: PidQuota, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert "install a JDK 17 or newer" in one_error(pid_quota(*stream_arguments(tmp_path)), 2)


def test_a_setting_out_of_range_is_one_line_for_the_stream(pid_quota: PidQuota, tmp_path: Path) -> None:
    err = one_error(pid_quota(*stream_arguments(tmp_path), "--window-seconds", 0), 2)
    assert "window_seconds=0" in err
