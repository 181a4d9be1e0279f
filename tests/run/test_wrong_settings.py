"""A wrong setting ends `pid-quota run` at once, with one line, and is not tried again."""

import socket
from pathlib import Path

import pytest

from broker.local.local_broker import LocalBroker
from tests.kits.run_kit import LIMIT_S, RunCommand

NOWHERE = "127.0.0.1:9"
WRONG = {
    "a trigger": (["--trigger", "5 parsecs"], "--trigger '5 parsecs' is no interval"),
    "a trigger that ends": (["--trigger", "available-now"], "--trigger 'available-now' is no interval"),
    "a window": (["--window-seconds", "0"], "window_seconds"),
    "a user": (["--never", "etl"], "'etl' is not one user"),
    "a number": (["--max-held", "0"], "--max-held"),
    "a form": (["--log-format", "xml"], "'xml' is not one of"),
    "settings of the client": (["--command-config", "/nowhere"], "--command-config /nowhere can't be read"),
    "a password": (["--kafka-password-file", "/nowhere"], "--kafka-password-file /nowhere can't be read"),
    "a file of quotas": (["--quotas-file", "/nowhere.yaml"], "--quotas-file /nowhere.yaml can't be read"),
    "a token": (["--console-token-file", "/nowhere"], "--console-token-file /nowhere can't be read"),
    "an address": (["--console-host", "192.0.2.1"], "can't listen on 192.0.2.1"),
    "an address of metrics": (["--metrics-host", "192.0.2.1"], "metrics can't be served at 192.0.2.1"),
    "an option of a part": (["--max-principals", "5"], "No such option"),
}


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
    assert code in (1, 2)
    assert message in error


def test_a_bad_file_of_quotas_ends_it_with_one_line(tmp_path: Path) -> None:
    file = tmp_path / "quotas.yaml"
    file.write_text("- {entity_name: alice}\n")
    code, error = one_line(RunCommand(NOWHERE), tmp_path / "data", "--quotas-file", str(file))
    assert code == 1
    assert f"quotas file {file}, entry 1" in error


def test_a_port_that_is_taken_ends_it_with_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, error = one_line(RunCommand(NOWHERE), tmp_path / "data", "--console-port", port)
    assert code == 2
    assert f"can't listen on 127.0.0.1 port {port}" in error
    assert "--console-port" in error


def test_a_login_that_brokers_refuse_ends_it_with_one_line(broker: LocalBroker, tmp_path: Path) -> None:
    config, password = tmp_path / "client.properties", tmp_path / "password"
    config.write_text("security.protocol=sasl_plaintext\nsasl.mechanisms=PLAIN\nsasl.username=alice\n")
    password.write_text("guessed\n")
    command = RunCommand(broker.bootstrap_servers, ["--command-config", str(config)])
    code, error = one_line(command, tmp_path / "data", "--kafka-password-file", str(password))
    assert code == 2
    assert "refuse the login of user 'alice'" in error
    assert "guessed" not in error


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
