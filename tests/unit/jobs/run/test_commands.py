"""What `run` tells its children."""

from dataclasses import replace
from pathlib import Path

import pytest

from jobs.cli import load_command
from jobs.options import LOGIN_FILE
from jobs.run import commands
from jobs.run.children import Command
from jobs.run.settings import RunSettings
from jobs.services.listening import CONSOLE_FD, METRICS_FD


@pytest.mark.parametrize(
    ("files", "resumes"),
    [
        ([], False),
        (["tables/producer_id_metrics/_delta_log/0.json"], False),
        (["tables/producer_id_metrics/part-0.parquet"], True),
        (["tables/producer_id_metrics/principal_hash=1/part-0.parquet"], True),
        (["tables/producer_id_metrics/part-0.parquet", "checkpoint/offsets/0"], False),
    ],
)
def test_a_stream_resumes_where_rows_end_only_if_its_checkpoint_is_gone(
    tmp_path: Path, files: list[str], resumes: bool
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "checkpoint").mkdir(exist_ok=True)
    settings = RunSettings(bootstrap_server="kafka:9092", data=tmp_path)
    assert ("--new-checkpoint" in commands.stream(settings, 3).arguments) is resumes


TOKEN = "t" * 40
FD = 7


@pytest.fixture
def settings(tmp_path: Path) -> RunSettings:
    return RunSettings(
        bootstrap_server="h:1",
        data=tmp_path,
        kafka_config=Path("/c/client.properties"),
        quotas_file=Path("/c/quotas.yaml"),
        console_token_file=Path("/c/token"),
        never=("User:a", "User:b"),
        max_held=3,
        window_seconds=120,
        trigger="2 seconds",
    )


def options(command: Command) -> list[tuple[str, str]]:
    """Return each word with the next one."""
    words = command.arguments
    return [*zip(words, [*words[1:], ""], strict=True)]


def test_the_stream_gets_the_settings_of_run(settings: RunSettings) -> None:
    found = options(commands.stream(settings, FD))
    assert [value for option, value in found if option == "--never"] == ["User:a", "User:b"]
    wanted = {
        ("--bootstrap-server", "h:1"),
        ("--command-config", "/c/client.properties"),
        ("--tables", str(settings.tables)),
        ("--checkpoint", str(settings.checkpoint)),
        ("--trigger", "2 seconds"),
        ("--window-seconds", "120"),
        ("--max-held", "3"),
    }
    assert wanted <= {*found}


@pytest.mark.parametrize("enforce", [True, False])
def test_holds_are_written_only_if_somebody_asked_for_it(settings: RunSettings, enforce: bool) -> None:
    found = commands.stream(replace(settings, enforce=enforce), FD).arguments
    assert ("--enforce" in found, "--no-enforce" in found) == (enforce, not enforce)


def test_the_console_gets_its_token_and_address_and_nothing_of_kafka(settings: RunSettings) -> None:
    found = options(commands.console(replace(settings, console=("::", 81)), FD))
    assert {("--token-file", "/c/token"), ("--listen", "[::]:81")} <= {*found}
    without = commands.console(replace(settings, console_token_file=None), FD).arguments
    assert "--token-file" not in without


def test_quotas_become_those_of_the_file_and_no_others_stay(settings: RunSettings) -> None:
    found = options(commands.set_quotas(settings))
    assert ("--import", "/c/quotas.yaml") in found
    assert "--prune" in dict(found)


def test_only_who_asks_the_brokers_gets_the_login(settings: RunSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOGIN_FILE, "/c/password")
    made = {
        "stream": commands.stream(settings, FD),
        "console": commands.console(settings, FD),
        "look": commands.look(settings),
        "census": commands.census(settings),
        "tables": commands.create_tables(settings),
        "maintain": commands.maintain(settings),
        "quotas": commands.set_quotas(settings),
    }
    asking = {"stream", "look", "census"}
    assert {name for name, each in made.items() if "/c/password" in each.environment.values()} == asking
    assert {name for name, each in made.items() if "/c/client.properties" in each.arguments} == asking
    assert {name for name, each in made.items() if each.hands_down} == {"stream", "console"}


def test_only_the_console_gets_the_token_of_the_environment_and_each_server_its_own_socket(
    settings: RunSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a starter that hands down sockets of its own
    monkeypatch.setenv("PID_QUOTA_CONSOLE_TOKEN", TOKEN)
    monkeypatch.setenv(CONSOLE_FD, "98")
    monkeypatch.setenv(METRICS_FD, "99")
    made = {
        "stream": commands.stream(settings, FD),
        "console": commands.console(settings, FD),
        "look": commands.look(settings),
        "maintain": commands.maintain(settings),
    }
    assert [name for name, each in made.items() if TOKEN in each.environment.values()] == ["console"]
    sockets = {
        name: {each.environment.get(CONSOLE_FD), each.environment.get(METRICS_FD)} for name, each in made.items()
    }
    assert sockets == {"stream": {None, "7"}, "console": {None, "7"}, "look": {None}, "maintain": {None}}
    assert made["stream"].environment[METRICS_FD] == made["console"].environment[CONSOLE_FD] == "7"
    assert TOKEN not in repr(made)


def test_all_temporary_files_of_a_child_are_in_its_own_folder(
    settings: RunSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", "/elsewhere")
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/elsewhere")
    for name, each in (("stream", commands.stream(settings, FD)), ("census", commands.census(settings))):
        folder = str(settings.data / "tmp" / name)
        assert (each.environment["TMPDIR"], each.environment["SPARK_LOCAL_DIRS"]) == (folder, folder)


def test_an_empty_variable_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    command, arguments = load_command("run"), ["--bootstrap-server", "h:1", "--data", "d"]
    without = command.make_context("run", list(arguments)).params
    variables = [each.envvar for each in command.params if each.envvar]
    assert len(variables) > 10
    for each in variables:
        monkeypatch.setenv(each, "")
    assert command.make_context("run", list(arguments)).params == without
