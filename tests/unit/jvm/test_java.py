from pathlib import Path

import pytest

from jvm.errors import JavaError
from jvm.java import find_java, java_version


def fake_java(folder: Path, version_line: str) -> Path:
    """A fake: a script that prints what `java -version` would, on stderr as the real one does."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{version_line}' >&2\n", encoding="ascii")
    java.chmod(0o755)
    return java


@pytest.fixture
def empty_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    java = fake_java(home, 'openjdk version "21.0.1" 2023-10-17')
    monkeypatch.setenv("JAVA_HOME", str(home))

    assert find_java() == str(java)


def test_a_java_is_asked_for_its_version_once_unless_it_did_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = fake_java(tmp_path, 'openjdk version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    script, asked = java.read_text(encoding="ascii"), tmp_path / "asked"
    java.write_text("no script", encoding="ascii")
    with pytest.raises(JavaError):
        find_java()

    java.write_text(f"{script}echo >> {asked}\n", encoding="ascii")
    assert (find_java(), java_version(str(java))) == (str(java), 'openjdk version "21.0.1"\n')

    assert asked.read_text(encoding="ascii") == "\n"


@pytest.mark.usefixtures("empty_path")
def test_no_java_is_said_in_one_line() -> None:
    with pytest.raises(JavaError, match=r"no java found.*install a JDK 17 or newer, or set JAVA_HOME") as caught:
        find_java()
    assert "\n" not in str(caught.value)


def test_a_java_home_without_java_is_named(empty_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(empty_path))

    with pytest.raises(JavaError, match=f"JAVA_HOME is {empty_path}.*correct or unset JAVA_HOME"):
        find_java()


@pytest.mark.parametrize(
    ("line", "version"),
    [('java version "1.8.0_402"', 8), ('openjdk version "11.0.2" 2019', 11), ('x version "16-ea"', 16)],
)
def test_an_old_java_tells_both_versions(
    line: str, version: int, empty_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(empty_path / "home"))
    fake_java(empty_path / "home", line)

    with pytest.raises(JavaError, match=rf"Java {version} found .*Java 17 or newer needed: install"):
        find_java()


def test_something_else_called_java_is_not_taken(empty_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(empty_path / "home"))
    fake_java(empty_path / "home", "hello")

    with pytest.raises(JavaError, match="printed 'hello' instead of its version"):
        find_java()


def test_this_machine_has_one() -> None:
    assert Path(find_java()).name == "java"
