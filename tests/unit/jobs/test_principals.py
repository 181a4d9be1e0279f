"""Names of principals: what people type, and what commands print for them to type."""

import subprocess

import pytest
import typer

from jobs.principals import read_user
from quota.typed import quoted, typed

SERVICE = "system:serviceaccount:data:etl"


@pytest.mark.parametrize(
    "name", ["User:alice", f"User:{SERVICE}", "User:CN=etl\\,batch,O=shop,C=DE", "User:a b", "User:spiffe://x/y"]
)
def test_a_whole_principal_is_taken_as_it_is(name: str) -> None:
    assert read_user(name) == name


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
    "name", ["CN=app-1,OU=Pay,O=Acme\\, Inc.,C=DE", "o'neill", "a\x1b[2Jb", "tab\tand\nline", 'ł $HOME `id` "x"', "!"]
)
def test_a_real_shell_reads_a_printed_name_as_it_is(name: str) -> None:
    for text in (quoted(name), typed((name,))):
        said = subprocess.run(["bash", "-c", f"printf %s {text}"], capture_output=True, check=True)
        assert said.stdout.decode() == name
