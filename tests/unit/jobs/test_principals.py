"""Names of principals: what people type, and what commands print for them to type."""

import shlex
import subprocess

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from jobs.principals import read_principal, read_user
from quota.typed import quoted, typed

SERVICE = "system:serviceaccount:data:etl"
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@pytest.mark.parametrize(
    "name", ["User:alice", f"User:{SERVICE}", "User:CN=etl\\,batch,O=shop,C=DE", "User:a b", "User:spiffe://x/y"]
)
def test_a_whole_principal_is_taken_as_it_is(name: str) -> None:
    assert read_user(name) == name
    assert read_principal(name, seen=[name]) == name


def test_a_name_without_a_colon_is_a_user() -> None:
    assert read_user("alice") == "User:alice"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("User:", "has no name"),
        ("User:*", "is not one user"),
        ("User:ANONYMOUS", "is not one user"),
        ("User: a", "a blank: did you mean"),
        ("alice ", "a blank: did you mean 'alice'"),
        ("user:alice", "write 'User:alice'"),
        ("Group:x", "write 'User:Group:x'"),
        (SERVICE, f"write 'User:{SERVICE}'"),
        ("mm2;CN=etl", "repeat the option"),
        ("etl,mm2", "repeat the option"),
        ("User:a;User:b", "repeat the option"),
        ("User:a,User:b", "repeat the option"),
    ],
)
def test_what_may_be_a_mistake_is_refused_with_what_to_write(text: str, said: str) -> None:
    with pytest.raises(typer.BadParameter) as refused:
        read_user(text)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "seen", "meant"),
    [
        (SERVICE, {f"User:{SERVICE}", "User:bob"}, f"User:{SERVICE}"),
        ("Team:data", {"Team:data"}, "Team:data"),
        ("a;b", {"User:a;b"}, "User:a;b"),
    ],
)
def test_of_two_meanings_the_one_that_exists_counts(text: str, seen: set[str], meant: str) -> None:
    assert read_principal(text, seen) == meant


def test_a_text_with_two_meanings_that_exist_is_refused() -> None:
    with pytest.raises(typer.BadParameter, match="write 'Team:data' or 'User:Team:data'"):
        read_principal("Team:data", {"Team:data", "User:Team:data"})


def test_a_principal_that_does_not_exist_is_refused_with_the_closest() -> None:
    with pytest.raises(typer.BadParameter, match="Did you mean 'User:mallory'"):
        read_principal("malory", {"User:mallory", "User:alice"})


def test_where_no_principal_exists_every_name_is_refused() -> None:
    with pytest.raises(typer.BadParameter, match="no principal 'User:alice' is known here"):
        read_principal("alice", set())


@given(NAMES)
def test_whatever_is_printed_can_be_typed_back_into_a_shell(name: str) -> None:
    command = typed(("printf", "%s", f"User:{name}"))
    assert command.isprintable()
    assert "$'" in command or shlex.split(command) == ["printf", "%s", f"User:{name}"]


@pytest.mark.parametrize(
    "name", ["CN=app-1,OU=Pay,O=Acme\\, Inc.,C=DE", "o'neill", "a\x1b[2Jb", "tab\tand\nline", 'ł $HOME `id` "x"', "!"]
)
def test_a_real_shell_reads_a_printed_name_as_it_is(name: str) -> None:
    for text in (quoted(name), typed((name,))):
        said = subprocess.run(["bash", "-c", f"printf %s {text}"], capture_output=True, check=True)
        assert said.stdout.decode() == name
