"""Names of principals: what people type, and what commands print for them to type."""

import subprocess

import pytest
import typer

from jobs.principals import ONE_READER, REPEAT_NEVER, RUN_FOR_EACH, read_user, similar
from quota.typed import quoted, typed

SERVICE = "system:serviceaccount:data:etl"


@pytest.mark.parametrize(
    "name",
    [
        "User:alice",
        f"User:{SERVICE}",
        "User:CN=etl\\,batch,O=shop,C=DE",
        "User:a b",
        "User:spiffe://x/y",
        "User:auth0|6f1",
        "User:CN=Nightly Load, CN=etl",
        "User:a*b",
    ],
)
def test_a_whole_principal_is_taken_as_it_is(name: str) -> None:
    assert read_user(name, RUN_FOR_EACH) == name


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
        ("User=etl", "write 'User:etl'"),
        ("etl*", "is a pattern"),
        ("User:etl*", "is a pattern"),
    ],
)
def test_what_may_be_a_mistake_is_refused_with_what_to_write(text: str, said: str) -> None:
    with pytest.raises(typer.BadParameter) as refused:
        read_user(text, RUN_FOR_EACH)
    assert said in str(refused.value)


@pytest.mark.parametrize("several", [RUN_FOR_EACH, REPEAT_NEVER, ONE_READER])
@pytest.mark.parametrize(
    "text",
    [
        *("mm2;CN=etl", "etl,mm2", "etl|mm2", "User:a;User:b", "User:a,User:b", "User:a User:b", "User:a|User:b"),
        *("User:a\tuser:b", "User:a\\nUser:b", "User:a, User:b", "User:mm2 CN=etl", "CN=mm2,O=a CN=etl"),
    ],
)
def test_several_users_in_one_text_are_refused_with_what_the_command_accepts(text: str, several: str) -> None:
    with pytest.raises(typer.BadParameter) as refused:
        read_user(text, several)
    assert several in str(refused.value)


def test_names_that_differ_only_in_case_are_all_similar() -> None:
    assert similar("ALICE", ["User:alice", "User:Alice", "User:bob"]) == ["User:Alice", "User:alice"]


@pytest.mark.parametrize(
    "name", ["CN=app-1,OU=Pay,O=Acme\\, Inc.,C=DE", "o'neill", "a\x1b[2Jb", "tab\tand\nline", 'ł $HOME `id` "x"', "!"]
)
def test_a_real_shell_reads_a_printed_name_as_it_is(name: str) -> None:
    for text in (quoted(name), typed((name,))):
        said = subprocess.run(["bash", "-c", f"printf %s {text}"], capture_output=True, check=True)
        assert said.stdout.decode() == name
