"""What a JVM may load classes from."""

from pathlib import Path

import pytest

from broker.jars import class_archive
from broker.jars.class_archive import ClassArchive
from broker.jars.java import find_java


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(class_archive, "_FOLDER", str(tmp_path / "archives"))
    return tmp_path / "archives"


def test_the_first_jvm_writes_it_and_the_next_reads_it(folder: Path) -> None:
    first = ClassArchive.of(find_java(), "a.jar")
    assert first.own is not None
    assert first.options(write=True) == (f"-XX:ArchiveClassesAtExit={first.own}",)
    assert first.options(write=False) == ()

    first.own.write_bytes(b"classes")
    first.keep()

    assert ClassArchive.of(find_java(), "a.jar").options(write=True) == (f"-XX:SharedArchiveFile={first.file}",)
    assert [each.name for each in folder.iterdir()] == [str(first.file and first.file.name)]


def test_two_jvms_that_write_at_once_use_files_of_their_own(folder: Path) -> None:
    one, other = ClassArchive.of(find_java(), "a.jar"), ClassArchive.of(find_java(), "a.jar")

    assert one.file == other.file
    assert one.own != other.own


def test_other_jars_have_another_archive(folder: Path) -> None:
    assert ClassArchive.of(find_java(), "a.jar").file != ClassArchive.of(find_java(), "b.jar").file


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o755])
def test_a_folder_that_others_may_read_or_write_is_not_used(folder: Path, mode: int) -> None:
    folder.mkdir()
    folder.chmod(mode)

    assert ClassArchive.of(find_java(), "a.jar").options(write=True) == ()


def test_a_jvm_that_writes_nothing_leaves_nothing(folder: Path) -> None:
    archive = ClassArchive.of(find_java(), "a.jar")

    archive.keep()

    assert list(folder.iterdir()) == []
