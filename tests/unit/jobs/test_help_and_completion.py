"""The help never cuts a name, a shell completes commands that are imported late, and Kafka's options are as Kafka's."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.cli import _COMMANDS, load_command
from jobs.once import OnceCommand
from tests.kits.command_kit import PidQuota, one_error, printed

ROOT = Path(__file__).parents[3]


def called(name: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    command = load_command(name)
    yield (name,), command
    for each, nested in getattr(command, "commands", {}).items():
        yield (name, each), nested


EVERY = [each for name in _COMMANDS for each in called(name)]


@pytest.mark.parametrize("columns", [20, 80])
@pytest.mark.parametrize(("words", "command"), EVERY, ids=[" ".join(words) for words, _ in EVERY])
def test_the_help_names_each_option_and_command_in_full(
    pid_quota: PidQuota, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], command: Any, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))

    out = printed(pid_quota(*words, "-h"))
    shown = out.split()
    assert f"pid-quota {' '.join(words)}" in " ".join(shown)
    names = [name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)]
    options = [name for name in names if name.startswith("--")]
    assert {*options, *getattr(command, "commands", ())} <= {word.rstrip(",") for word in shown}
    assert "..." not in re.sub(r"(ARGS|BROKER_ID)\]\.\.\.", "", out)
    assert not re.search(r"--[\w-]*-$", out, re.MULTILINE)


def test_an_unknown_command_is_answered_with_one_that_is_like_it(pid_quota: PidQuota) -> None:
    assert pid_quota("quoats")[2] == "error: No such command 'quoats'. Did you mean 'quotas'? See --help\n"


def leaves() -> dict[str, list[Any]]:
    """The commands, without groups of commands, and their options."""
    return {
        " ".join(words): [each for each in command.params if each.param_type_name == "option"]
        for words, command in EVERY
        if not hasattr(command, "commands")
    }


def test_one_option_has_one_name_in_all_commands() -> None:
    names = {name for options in leaves().values() for each in options for name in each.opts}
    assert {"--bootstrap-server", "--command-config"} <= names
    assert not names & {"--bootstrap-servers", "--kafka-config"}


@pytest.mark.parametrize(("words", "command"), EVERY, ids=[" ".join(words) for words, _ in EVERY])
def test_each_command_refuses_an_option_that_is_given_twice(words: tuple[str, ...], command: Any) -> None:
    assert hasattr(command, "commands") or isinstance(command, OnceCommand), words


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        ("--alter --entity-type clients --entity-name a --entity-type users --entity-name bob", "--entity-type"),
        ("--alter --entity-name carol --entity-name dave --add-config producer_ids_rate=5", "--entity-name"),
        ("--alter --entity-default --add-config producer_ids_rate=5 --add-config producer_ids_burst=9", "--add-config"),
    ],
)
def test_a_second_value_that_would_replace_the_first_is_refused_and_sets_nothing(
    pid_quota: PidQuota, tmp_path: Path, arguments: str, option: str
) -> None:
    printed(pid_quota("tables", "create", "--tables", tmp_path))
    err = one_error(pid_quota("quotas", "--tables", tmp_path, *arguments.split()), 2)
    assert f"{option} appears 2 times" in err
    assert printed(pid_quota("quotas", "--tables", tmp_path, "--describe")) == "no quotas are set\n"


def test_a_repeatable_option_may_be_repeated(pid_quota: PidQuota, tmp_path: Path) -> None:
    printed(pid_quota("tables", "create", "--tables", tmp_path))
    kept = ("--retention", "throttle_decisions=400", "--retention", "producer_id_metrics=40")
    printed(pid_quota("tables", "maintain", "--tables", tmp_path, *kept))


def test_a_java_file_that_can_t_be_used_is_one_line_without_its_password(pid_quota: PidQuota, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("sasl.mechanism=GSSAPI\nsasl.jaas.config=a.Krb5LoginModule required password=hunter2;\n")

    err = one_error(pid_quota("doctor", "--bootstrap-server", "127.0.0.1:1", "--command-config", file), 2)
    assert err == (
        f"error: {file}: sasl.mechanism GSSAPI with the login module Krb5LoginModule is not supported: "
        "use one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512\n"
    )


COMPLETE = """
source <(pid-quota --show-completion)
words=("$@")
COMP_WORDS=(pid-quota "${words[@]}") COMP_CWORD=${#words[@]}
read -r _ _ _ _ function _ <<<"$(complete -p pid-quota)"
"$function" pid-quota
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def path_with_ours(tmp_path: Path) -> dict[str, str]:
    """As after an install: `pid-quota` is on the PATH."""
    program = tmp_path / "pid-quota"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m jobs "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["qu"], ["quotas"]),
        (["topics", "de"], ["delete"]),
        (["quotas", "--en"], ["--entity-type", "--entity-name", "--entity-default"]),
        (["plugin", "load", "--bo"], ["--bootstrap-server"]),
        (["top", "--sort", "re"], ["refused"]),
    ],
    ids=" ".join,
)
def test_bash_completes_commands_options_and_choices(
    path_with_ours: dict[str, str], typed: list[str], offered: list[str]
) -> None:
    done = subprocess.run(
        ["bash", "--norc", "-c", COMPLETE, "bash", *typed],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=path_with_ours,
    )
    assert done.stdout.split() == offered


@pytest.mark.parametrize("value", ["", "  "])
def test_an_empty_value_is_refused_before_anything_is_written(
    pid_quota: PidQuota, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments in (("tables", "create"), ("quotas", "--describe"), ("top", "--once")):
        code, _, error = pid_quota(*arguments, "--tables", value)
        assert code == 2
        assert "--tables is empty" in error
    assert [*tmp_path.iterdir()] == []


def test_the_command_line_has_a_hundred_options_at_most() -> None:
    assert sum(map(len, leaves().values())) <= 100
