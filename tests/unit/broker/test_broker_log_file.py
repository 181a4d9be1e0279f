from pathlib import Path

import pytest

from broker.errors import TapError
from broker.log_file import LogFile, Position, load_position, save_position


def read_all(file: LogFile, rounds: int = 5) -> list[bytes]:
    return [line for _ in range(rounds) for line in file.read()]


def append(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


def test_a_line_is_handed_out_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = LogFile(path)
    append(path, b"one\ntw")
    assert read_all(file) == [b"one"]
    append(path, b"o\n")
    assert read_all(file) == [b"two"]
    file.close()


def test_a_file_may_appear_later(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "log")
    assert file.open_at(None) == 0
    assert read_all(file) == []
    append(tmp_path / "log", b"one\n")
    assert read_all(file) == [b"one"]
    file.close()


def test_rotation_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = LogFile(path)
    append(path, b"one\n")
    assert read_all(file) == [b"one"]
    append(path, b"two\n")
    path.rename(tmp_path / "log.1")
    append(path, b"three\n")
    assert read_all(file) == [b"two", b"three"]
    assert (file.rotations, file.truncations) == (1, 0)
    file.close()


def test_truncation_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = LogFile(path)
    append(path, b"a long first line\n")
    assert read_all(file) == [b"a long first line"]
    path.write_bytes(b"new\n")
    assert read_all(file) == [b"new"]
    assert file.truncations == 1
    file.close()


def test_a_position_is_gone_on_from(tmp_path: Path) -> None:
    path = tmp_path / "log"
    append(path, b"one\ntwo\nthr")
    first = LogFile(path)
    read_all(first)
    position = first.position
    first.close()
    append(path, b"ee\n")
    assert position is not None

    second = LogFile(path)
    assert second.open_at(position) == len(b"one\ntwo\n")
    assert read_all(second) == [b"three"]
    second.close()


def test_a_position_in_a_rotated_file_is_gone_on_from_there(tmp_path: Path) -> None:
    path = tmp_path / "log"
    append(path, b"one\ntwo\n")
    position = Position(path.stat().st_ino, len(b"one\n"))
    path.rename(tmp_path / "log.1")
    append(path, b"three\n")

    file = LogFile(path)
    file.open_at(position)
    assert read_all(file) == [b"two", b"three"]
    file.close()


def test_a_position_in_a_file_that_is_gone_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    append(path, b"one\n")
    file = LogFile(path)
    assert file.open_at(Position(path.stat().st_ino + 1, 4)) == 0
    assert read_all(file) == [b"one"]
    file.close()


def test_context_begins_at_a_whole_line_before_the_position(tmp_path: Path) -> None:
    path = tmp_path / "log"
    append(path, b"one\ntwo\nthree\n")
    file = LogFile(path)
    new_from = file.open_at(Position(path.stat().st_ino, 8), context_bytes=5)
    assert new_from == 8
    assert read_all(file) == [b"two", b"three"]
    file.close()


def test_from_end_hands_out_only_what_comes_later(tmp_path: Path) -> None:
    path = tmp_path / "log"
    append(path, b"one\n")
    file = LogFile(path)
    file.open_at(None, from_end=True)
    append(path, b"two\n")
    assert read_all(file) == [b"two"]
    file.close()


def test_a_position_survives_saving(tmp_path: Path) -> None:
    path = tmp_path / "position"
    assert load_position(path) is None
    save_position(path, Position(3, 4))
    assert load_position(path) == Position(3, 4)


def test_a_damaged_position_file_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "position"
    path.write_text("rubbish", encoding="ascii")
    with pytest.raises(TapError, match="delete it to begin anew"):
        load_position(path)
