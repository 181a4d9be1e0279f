"""Files that change while `run` runs, and its folder."""

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from jobs.run.errors import FolderTakenError
from jobs.run.files import WatchedFile
from jobs.run.folder import own_folder, with_token
from jobs.run.settings import RunSettings, environment


def settings(folder: Path) -> RunSettings:
    return RunSettings(bootstrap_server="h:1", data=folder)


def test_a_file_has_changed_once_per_new_content_and_not_by_a_touch(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("a")
    watched = WatchedFile(file)
    os.utime(file, (1, 1))
    assert not watched.has_changed()
    file.write_text("b")
    assert [watched.has_changed(), watched.has_changed()] == [True, False]


def test_a_config_map_changes_by_its_links(tmp_path: Path) -> None:
    # given a file as Kubernetes mounts it: a link to a link to a folder
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "q.yaml").write_text(name)
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "q.yaml").symlink_to("..data/q.yaml")
    watched = WatchedFile(tmp_path / "q.yaml")
    # when the folder's link is gone for a moment, and then another
    (tmp_path / "..data").unlink()
    assert not watched.has_changed()
    (tmp_path / "..data").symlink_to("two")
    assert watched.has_changed()


def test_one_run_at_a_time_uses_a_folder_and_the_second_names_the_first(tmp_path: Path) -> None:
    of_run = settings(tmp_path / "data")
    with (
        own_folder(of_run),
        pytest.raises(FolderTakenError, match=rf"\(process {os.getpid()}\) uses --data {tmp_path}/data: "),
        own_folder(of_run),
    ):
        pass
    with own_folder(of_run):
        pass


def test_a_start_empties_what_an_earlier_one_left_in_its_temporary_folder(tmp_path: Path) -> None:
    of_run = settings(tmp_path)
    left = of_run.scratch / "stream" / "spark-1"
    left.mkdir(parents=True)
    with own_folder(of_run):
        assert not left.exists()
        assert stat.S_IMODE((of_run.scratch / "stream").stat().st_mode) == 0o700


def test_a_console_for_others_gets_a_token_that_stays(tmp_path: Path) -> None:
    of_run = replace(settings(tmp_path), console_host="::")
    first = with_token(of_run).console_token_file
    assert first is not None
    token = first.read_text()
    assert len(token) > 30
    assert stat.S_IMODE(first.stat().st_mode) == 0o600
    assert with_token(of_run).console_token_file == first
    assert first.read_text() == token
    assert with_token(settings(tmp_path)).console_token_file is None


def test_only_the_console_gets_its_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PID_QUOTA_CONSOLE_TOKEN", "s" * 40)
    holders = [
        part for part in ("stream", "console", "look") if "s" * 40 in environment(settings(tmp_path), part).values()
    ]
    assert holders == ["console"]


def test_a_token_that_the_user_gave_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for_others = replace(settings(tmp_path), console_host="::")
    given = replace(for_others, console_token_file=tmp_path / "token")
    (tmp_path / "token").write_text("s" * 40)
    assert with_token(given) == given
    monkeypatch.setenv("PID_QUOTA_CONSOLE_TOKEN", "s" * 40)
    assert with_token(for_others) == for_others
    assert not for_others.own_token_file.exists()


def test_an_empty_token_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("\n")
    monkeypatch.setenv("PID_QUOTA_CONSOLE_TOKEN", "")
    empty = replace(settings(tmp_path), console_host="::", console_token_file=tmp_path / "token")
    assert with_token(empty).console_token_file == empty.own_token_file


def test_a_folder_that_can_t_be_made_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    with (
        pytest.raises(FolderTakenError, match=rf"^--data {tmp_path}/data can't be written \(File exists\): "),
        own_folder(settings(tmp_path / "data")),
    ):
        pass


def test_the_folder_names_only_its_newest_run(tmp_path: Path) -> None:
    (tmp_path / "run.lock").write_text("1234567890123\n")
    with own_folder(settings(tmp_path)):
        assert (tmp_path / "run.lock").read_text() == f"{os.getpid()}\n"


def test_a_user_without_name_and_home_gets_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 54_321)
    monkeypatch.setenv("HOME", str(tmp_path / "missing"))
    found = environment(settings(tmp_path), "stream")
    assert (found["USER"], found["HOME"]) == ("pid-quota", str(settings(tmp_path).scratch / "stream"))
