"""Why `pid-quota run` ends: with one line, and with exit code 2 if only a person's change helps."""

import fcntl
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.local.local_broker import LocalBroker
from jobs.options import LOGIN_FILE
from tests.kits.run_kit import LIMIT_S, RunCommand, wait_until_it_catches_signals

NOWHERE = "127.0.0.1:9"
WRONG = {
    "no brokers": (["--bootstrap-server", "kafka-1"], "'kafka-1' is no list of host:port"),
    "a trigger": (["--trigger", "5 parsecs"], "--trigger '5 parsecs' is no interval"),
    "a trigger that ends": (["--trigger", "available-now"], "--trigger 'available-now' is no interval"),
    "a window": (["--window-seconds", "0"], "window_seconds"),
    "a user": (["--never", "User:a;User:b"], "'User:a;User:b' is not one user"),
    "a number": (["--max-held", "0"], "--max-held"),
    "a form": (["--log-format", "xml"], "'xml' is not one of"),
    "settings of the client": (["--command-config", "/nowhere"], "--command-config /nowhere can't be read"),
    "a file of quotas": (["--quotas-file", "/nowhere.yaml"], "--quotas-file /nowhere.yaml can't be read"),
    "a token": (["--console-token-file", "/nowhere"], "--console-token-file /nowhere can't be read"),
    "an address": (["--console", "192.0.2.1:0"], "can't listen on 192.0.2.1"),
    "an address of metrics": (["--metrics", "192.0.2.1:0"], "can't listen on 192.0.2.1"),
    "an address without a port": (["--console", "localhost"], "--console 'localhost' has no port"),
    "one port for two": (["--console", "7", "--metrics", "0.0.0.0:7"], "--console and --metrics have both port 7"),
    "an empty folder": (["--data", ""], "--data is empty"),
    "a blank folder": (["--data", " "], "--data is empty"),
    "a file as folder": (["--data", "/dev/null"], "--data /dev/null can't be written"),
    "an option of a part": (["--max-principals", "5"], "No such option"),
}
"""Options, and what is said of them. Each is a wrong setting."""


def taken(option: str) -> Callable[[Path, socket.socket], list[str]]:
    return lambda _, busy: [option, str(busy.getsockname()[1])]


PASSING: dict[str, tuple[Callable[[Path, socket.socket], list[str]], str]] = {
    "the console's port is taken": (taken("--console"), "Choose another address with --console"),
    "the metrics' port is taken": (taken("--metrics"), "Choose another address with --metrics"),
    "the folder is taken": (lambda data, _: ["--data", str(data)], "another `pid-quota run`"),
}
"""Options for a folder and a port that others use. Each of these causes may end by itself."""


def one_line(command: RunCommand, data: Path, *more: str) -> tuple[int, str]:
    """Run to the end. Return the exit code and the only line that is an error."""
    with command.running(data, *more) as run:
        code = run.process.wait(LIMIT_S)
        (error,) = [each for each in run.said().splitlines() if each.startswith("error: ")]
        assert run.said().splitlines()[-1] == error
    return code, error


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_setting_ends_it_with_one_line(name: str, tmp_path: Path) -> None:
    options, message = WRONG[name]
    code, error = one_line(RunCommand(NOWHERE), tmp_path / "data", *options)
    assert code == 2
    assert message in error


def test_a_file_of_the_password_that_can_t_be_read_ends_it_with_one_line(tmp_path: Path) -> None:
    command = RunCommand(NOWHERE, environment={LOGIN_FILE: "/nowhere"})
    code, error = one_line(command, tmp_path / "data")
    assert code == 2
    assert f"{LOGIN_FILE} /nowhere can't be read" in error


@pytest.mark.parametrize("name", PASSING)
def test_what_others_use_ends_it_with_one_line_and_a_code_for_another_start(name: str, tmp_path: Path) -> None:
    options, message = PASSING[name]
    with socket.create_server(("127.0.0.1", 0)) as busy, (tmp_path / "run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, error = one_line(RunCommand(NOWHERE), tmp_path / "data", *options(tmp_path, busy))
    assert code == 1
    assert message in error


def test_a_bad_file_of_quotas_ends_it_with_one_line(tmp_path: Path) -> None:
    file = tmp_path / "quotas.yaml"
    file.write_text("- {entity_name: alice}\n")
    code, error = one_line(RunCommand(NOWHERE), tmp_path / "data", "--quotas-file", str(file))
    assert code == 2
    assert f"quotas file {file}, entry 1" in error


def test_a_login_that_brokers_refuse_is_told_once_and_tried_again_when_the_password_changes(
    broker: LocalBroker, tmp_path: Path
) -> None:
    # given a wrong password
    config, password = tmp_path / "client.properties", tmp_path / "password"
    config.write_text("security.protocol=sasl_plaintext\nsasl.mechanisms=PLAIN\nsasl.username=alice\n")
    password.write_text("guessed\n")
    command = RunCommand(broker.bootstrap_servers, ["--command-config", str(config)], {LOGIN_FILE: str(password)})
    with command.running(tmp_path / "data") as run:
        run.wait_for("refuse the login of user 'alice'")
        run.wait_for("it tries again")
        assert run.get("/healthz")[0] == 200

        # when it is replaced by the right one
        password.write_text(broker.client_config("alice")["sasl.password"] + "\n")

        # then it goes on
        run.wait_for("the brokers answer")
        assert run.said().count("refuse the login") == 1
        assert "guessed" not in run.said()
        assert run.stop() == 0


@pytest.mark.parametrize("after_s", [0.0, 0.1, 0.3, 0.6, 1.5])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_run_that_has_just_been_started(tmp_path: Path, after_s: float, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "jobs", "run", "--bootstrap-server", NOWHERE, "--data", str(tmp_path / "data")]
    ports = ["--console", "0", "--metrics", "0"]
    with subprocess.Popen([*command, *ports], stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as run:
        wait_until_it_catches_signals(run.pid)
        time.sleep(after_s)
        run.send_signal(number)
        assert run.wait(LIMIT_S) == 0


@pytest.mark.slow
def test_a_checkpoint_of_another_window_ends_it_with_one_line(broker: LocalBroker, tmp_path: Path) -> None:
    command = RunCommand(broker.admin_servers, ["--trigger", "1 second"])
    with command.running(tmp_path / "data") as run:
        run.wait_until_ready()
        assert run.stop() == 0
    code, error = one_line(command, tmp_path / "data", "--window-seconds", "7200")
    assert code == 2
    assert "7200" in error
    assert "window" in error


def test_brokers_that_are_away_are_no_wrong_setting(tmp_path: Path) -> None:
    with RunCommand(NOWHERE).running(tmp_path / "data") as run:
        run.wait_for(f"no Kafka broker answers at {NOWHERE}")
        run.until(lambda: run.get("/", of_console=True)[0] == 200, "the console answers")
        assert run.get("/healthz") == (200, "ok\n")
        status, why = run.get("/readyz")
        assert status == 503
        assert "no Kafka broker answers" in why
        assert run.stop() == 0
        assert run.said().count("no Kafka broker answers") == 1
