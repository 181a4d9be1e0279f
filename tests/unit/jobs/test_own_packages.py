"""Another library's package of our name is named, not run into."""

import sys
from pathlib import Path

import pytest

from jobs import cli
from jobs.cli import OWN, require_own_packages
from jobs.errors import ForeignPackageError


def test_ours_are_ours() -> None:
    require_own_packages()


def test_another_s_is_named_with_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OWN:
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "streaming").mkdir()
    (tmp_path / "streaming" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ForeignPackageError, match=f"'streaming' found first is {tmp_path}/streaming/__init__.py"):
        require_own_packages()


def test_a_command_says_it_in_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse() -> None:
        msg = "the package 'streaming' found first is another's"
        raise ForeignPackageError(msg)

    monkeypatch.setattr(cli, "require_own_packages", refuse)
    assert cli.run(["sql", "--tables", "t", "SELECT 1"]) == 1
    assert capsys.readouterr().err == "error: the package 'streaming' found first is another's\n"
