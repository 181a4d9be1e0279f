"""`PID_QUOTA_NEVER`: several users in one variable, with the blanks and commas of their names."""

import pytest
import typer

from jobs.cli import load_command
from jobs.principals import REPEAT_NEVER, read_user


def never(*words: str) -> list[str]:
    """Return the users of `--never` as `pid-quota run` reads them."""
    command = load_command("run")
    context = command.make_context("run", ["--bootstrap-server", "h:1", "--data", "d", *words])
    return [read_user(each, REPEAT_NEVER) for each in context.params["never"] or ()]


@pytest.mark.parametrize(
    ("text", "users"),
    [
        ("User:etl", ["User:etl"]),
        ("User:etl;mm2", ["User:etl", "User:mm2"]),
        ("User:CN=Nightly Load, OU=Data,C=DE;User:a b", ["User:CN=Nightly Load, OU=Data,C=DE", "User:a b"]),
    ],
)
def test_semicolons_separate_users_and_nothing_else_does(
    monkeypatch: pytest.MonkeyPatch, text: str, users: list[str]
) -> None:
    monkeypatch.setenv("PID_QUOTA_NEVER", text)
    assert never() == users


@pytest.mark.parametrize(
    "text",
    ["User:a,User:b", "User:a; User:b", "User:a;", "user:a", "User:a User:b", "User:a|b;User:c|User:d", "User:a*"],
)
def test_a_variable_that_names_no_user_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("PID_QUOTA_NEVER", text)
    with pytest.raises(typer.BadParameter):
        never()


def test_the_command_line_replaces_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PID_QUOTA_NEVER", "User:a;User:b")
    assert never("--never", "User:c d", "--never", "e") == ["User:c d", "User:e"]
