import os
from pathlib import Path

import pytest

from jvm import class_archive
from jvm.class_archive import ClassArchive
from jvm.java import find_java


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(class_archive, "_FOLDER", str(tmp_path / "archives"))
    return tmp_path / "archives"


def test_the_first_jvm_writes_it_and_the_next_reads_it(folder: Path) -> None:
    first = ClassArchive.find(find_java(), "a.jar")
    assert first.own is not None
    assert first.options(write=True) == (f"-XX:ArchiveClassesAtExit={first.own}",)
    assert first.options(write=False) == ()

    first.own.write_bytes(b"classes")
    first.keep()

    assert ClassArchive.find(find_java(), "a.jar").options(write=True) == (f"-XX:SharedArchiveFile={first.file}",)
    assert [each.name for each in folder.iterdir()] == [str(first.file and first.file.name)]


def test_two_jvms_that_write_at_once_use_files_of_their_own(folder: Path) -> None:
    one, other = ClassArchive.find(find_java(), "a.jar"), ClassArchive.find(find_java(), "a.jar")

    assert one.file == other.file
    assert one.own != other.own


def test_other_jars_another_java_and_another_version_of_it_have_another_archive(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = set()
    for java, version, jar in (("java", "17", "a"), ("java", "17", "b"), ("java", "21", "a"), ("other", "17", "a")):
        monkeypatch.setattr(class_archive, "java_version", lambda _, version=version: version)
        files.add(ClassArchive.find(java, jar).file)
    assert len(files) == 4


def test_the_newest_archives_are_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive, "_KEPT", 4)
    files = []
    for number in range(6):
        archive = ClassArchive.find(find_java(), f"{number}.jar")
        assert archive.own is not None
        archive.own.touch()
        os.utime(archive.own, (number, number))
        archive.keep()
        files.append(archive.file)
    assert set(folder.iterdir()) == set(files[2:])


def test_a_folder_of_somebody_else_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)

    assert ClassArchive.find(find_java(), "a.jar").options(write=True) == ()


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o755])
def test_a_folder_that_others_may_read_or_write_is_not_used(folder: Path, mode: int) -> None:
    folder.mkdir()
    folder.chmod(mode)

    assert ClassArchive.find(find_java(), "a.jar").options(write=True) == ()


def test_a_jvm_that_writes_nothing_leaves_nothing(folder: Path) -> None:
    archive = ClassArchive.find(find_java(), "a.jar")

    archive.keep()

    assert list(folder.iterdir()) == []
