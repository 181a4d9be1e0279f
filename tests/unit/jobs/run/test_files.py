"""Files that change while `run` runs, and its folder."""

import errno
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from jobs.errors import JobError, WrongSettingError
from jobs.run.files import WatchedFile
from jobs.run.folder import own_folder
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


def test_a_start_empties_what_an_earlier_one_left_in_its_temporary_folder(tmp_path: Path) -> None:
    of_run = settings(tmp_path)
    left = of_run.scratch / "stream" / "spark-1"
    left.mkdir(parents=True)
    with own_folder(of_run):
        assert not left.exists()
        assert stat.S_IMODE((of_run.scratch / "stream").stat().st_mode) == 0o700


def token_file(of_run: RunSettings) -> Path | None:
    with own_folder(of_run) as found:
        return found.console_token_file


def test_a_console_for_others_gets_a_token_that_stays(tmp_path: Path) -> None:
    of_run = replace(settings(tmp_path), console=("::", 0))
    first = token_file(of_run)
    assert first is not None
    token = first.read_text()
    assert len(token) > 30
    assert stat.S_IMODE(first.stat().st_mode) == 0o600
    assert token_file(of_run) == first
    assert first.read_text() == token
    assert token_file(settings(tmp_path)) is None


@pytest.mark.parametrize("left", [b"", b"\n", b"short\n", b"\xff" * 43, b"two words that are long enough\n"])
def test_a_damaged_token_is_made_anew_whatever_a_crash_has_left(tmp_path: Path, left: bytes) -> None:
    of_run = replace(settings(tmp_path), console=("::", 0))
    of_run.own_token_file.write_bytes(left)
    of_run.own_token_file.with_suffix(".new").write_bytes(left)
    file = token_file(of_run)
    assert file is not None
    assert len(file.read_text().strip()) > 30
    assert [each.name for each in tmp_path.glob("console-token*")] == ["console-token"]


def test_a_token_that_can_t_be_written_is_an_error_of_the_folder(tmp_path: Path) -> None:
    of_run = replace(settings(tmp_path), console=("::", 0))
    of_run.own_token_file.mkdir()
    with pytest.raises(WrongSettingError, match=r"can't be written \(Is a directory\)"):
        token_file(of_run)


def test_an_empty_variable_gives_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PID_QUOTA_CONSOLE_TOKEN", " ")
    for_others = replace(settings(tmp_path), console=("::", 0))
    assert token_file(for_others) == for_others.own_token_file


# As in the Secret of docs/kubernetes/pid-quota.yaml. The console itself refuses a token that is too short.
@pytest.mark.parametrize(
    ("text", "is_used"),
    [("", False), ("\n", False), ("  \n" + "s" * 40, False), ("s" * 40, True), ("short", True), (None, True)],
)
def test_a_file_without_a_token_in_its_first_line_gives_none(tmp_path: Path, text: str | None, is_used: bool) -> None:
    given = tmp_path / "given"
    if text is not None:
        given.write_text(text)
    of_run = replace(settings(tmp_path), console=("::", 0), console_token_file=given)
    assert token_file(of_run) == (given if is_used else of_run.own_token_file)
    assert of_run.own_token_file.exists() is not is_used


def test_a_token_of_the_environment_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for_others = replace(settings(tmp_path), console=("::", 0))
    monkeypatch.setenv("PID_QUOTA_CONSOLE_TOKEN", "s" * 40)
    assert token_file(for_others) is None
    assert not for_others.own_token_file.exists()


def test_a_folder_on_a_full_disk_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(JobError, match="No space left on device"), own_folder(settings(tmp_path)):
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
