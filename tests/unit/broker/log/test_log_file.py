import gzip
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker.errors import TapError
from broker.log.log_file import LogFile
from broker.log.sources import FileSource
from broker.tap.broker_watch import SavedWatch
from broker.tap.learning import LearningTime
from broker.tap.line_order import LineOrder
from broker.tap.position_file import Checkpoint, load_checkpoint, save_checkpoint
from wire.heartbeat import FilePosition, TopicPosition


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def follow(path: Path) -> Iterator[Callable[[], LogFile]]:
    opened = []

    def make() -> LogFile:
        opened.append(LogFile(path))
        return opened[-1]

    yield make
    for file in opened:
        file.close()


def read_all(file: LogFile, rounds: int = 12) -> list[bytes]:
    return [line for _ in range(rounds) for line in file.read()]


def append(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


@pytest.fixture
def file(path: Path, follow: Callable[[], LogFile]) -> LogFile:
    """A followed file with a line that was read."""
    file = follow()
    append(path, b"one\n")
    assert read_all(file) == [b"one"]
    return file


def age(path: Path, seconds: int) -> None:
    """Files made within one tick of the clock would have the same age."""
    now = path.stat().st_mtime_ns
    os.utime(path, ns=(now - seconds * 10**9, now - seconds * 10**9))


def compress(path: Path) -> None:
    """As gzip does: another file, the same times."""
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    os.utime(packed, ns=times)


def test_a_line_is_handed_out_once_it_is_whole(path: Path, follow: Callable[[], LogFile]) -> None:
    file = follow()
    append(path, b"one\ntw")
    assert read_all(file) == [b"one"]
    append(path, b"o\n")
    assert read_all(file) == [b"two"]


def test_a_file_may_appear_later(path: Path, follow: Callable[[], LogFile]) -> None:
    file = follow()
    file.open_at(None)
    assert read_all(file) == []
    append(path, b"one\n")
    assert read_all(file) == [b"one"]


def test_rotation_loses_nothing(path: Path, file: LogFile) -> None:
    append(path, b"two\n")
    path.rename(path.with_name("log.1"))
    append(path, b"three\n")
    assert read_all(file) == [b"two", b"three"]
    assert (file.rotations, file.truncations) == (1, 0)


def test_rotation_twice_between_two_looks_loses_nothing(path: Path, file: LogFile) -> None:
    # As log4j 1 does: the numbers move on.
    path.rename(path.with_name("log.2"))
    age(path.with_name("log.2"), 20)
    append(path, b"two\n")
    path.rename(path.with_name("log.1"))
    age(path.with_name("log.1"), 10)
    append(path, b"three\n")
    assert read_all(file) == [b"two", b"three"]


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "compressed"])
@pytest.mark.parametrize(
    "names",
    [("log.3", "log.2", "log.1"), ("log.1", "log.2", "log.3"), ("log-20261119", "log-20261120", "log-20261121")],
)
def test_rotation_many_times_while_nobody_looked_loses_nothing(
    names: tuple[str, str, str], packed: bool, path: Path, follow: Callable[[], LogFile]
) -> None:
    append(path, b"one\ntwo\n")
    first = follow()
    file_read = read_all(first, rounds=2)
    position = first.position
    assert position is not None
    assert file_read == [b"one", b"two"]
    append(path, b"three\n")
    for days, (name, next_line) in enumerate(zip(names, (b"four\n", b"five\n", b"six\n"), strict=True)):
        rotated = path.rename(path.with_name(name))
        age(rotated, 86400 * (3 - days))
        if packed:
            compress(rotated)
        append(path, next_line)

    second = follow()
    second.open_at(position)

    assert read_all(second) == [b"three", b"four", b"five", b"six"]
    assert second.lost_files == 0


def test_a_file_that_is_compressed_during_reading_is_read_once(path: Path, file: LogFile) -> None:
    append(path, b"two\n")
    rotated = path.rename(path.with_name("log.1"))
    age(rotated, 10)
    # Half-written: the plain one is still there.
    path.with_name("log.1.gz").write_bytes(gzip.compress(rotated.read_bytes())[:-9])
    append(path, b"three\n")
    assert file.read() == [b"two"]
    rotated.unlink()
    path.with_name("log.1.gz").unlink()
    assert read_all(file) == [b"three"]


def test_truncation_begins_anew(path: Path, follow: Callable[[], LogFile]) -> None:
    file = follow()
    append(path, b"a long first line\n")
    assert read_all(file) == [b"a long first line"]
    path.write_bytes(b"new\n")
    assert read_all(file) == [b"new"]
    assert file.truncations == 1


def test_truncation_is_noticed_when_more_was_written_than_before(path: Path, file: LogFile) -> None:
    path.write_bytes(b"a longer line than before\nand another\n")
    assert read_all(file) == [b"a longer line than before", b"and another"]


@pytest.mark.parametrize("running", [True, False])
def test_copy_and_truncate_loses_nothing(running: bool, path: Path, follow: Callable[[], LogFile]) -> None:
    file = follow()
    append(path, b"one\n")
    assert read_all(file) == [b"one"]
    position = file.position
    append(path, b"two\n")
    shutil.copyfile(path, path.with_name("log.1"))
    age(path.with_name("log.1"), 10)
    path.write_bytes(b"")
    append(path, b"three\nfour\nfive\n")

    if not running:
        file = follow()
        file.open_at(position)

    assert read_all(file) == [b"two", b"three", b"four", b"five"]


def test_a_position_in_a_file_that_is_gone_begins_at_the_oldest_left(path: Path, follow: Callable[[], LogFile]) -> None:
    append(path, b"two\n")
    path.rename(path.with_name("log.1"))
    age(path.with_name("log.1"), 10)
    append(path, b"three\n")
    file = follow()

    file.open_at(FilePosition(1, 4, 4, "0" * 64))

    assert read_all(file) == [b"two", b"three"]
    assert file.lost_files == 1


def test_files_that_were_deleted_unread_are_counted_and_said_with_the_next_lines(path: Path) -> None:
    append(path, b"one\n")
    source = FileSource(path, 1)
    source.open(None, None)
    assert [(batch.lines, batch.after_loss) for batch in source.read()] == [([b"one"], False)]

    path.unlink()
    append(path, b"four\n")
    batches = [batch for _ in range(5) for batch in source.read()]
    append(path, b"five\n")
    batches += source.read()
    source.close()

    assert [(batch.lines, batch.after_loss) for batch in batches] == [([b"four"], True), ([b"five"], False)]
    assert source.counters.lost_files == 1


def test_files_that_are_no_rotated_logs_are_left_alone(path: Path, follow: Callable[[], LogFile]) -> None:
    for name in ("log.position", "log.position.new", "log.bak", "log2", "log.1.gz.tmp"):
        path.with_name(name).write_bytes(b"other\n")
        age(path.with_name(name), 5)
    append(path, b"one\n")
    file = follow()

    file.open_at(FilePosition(1, 4, 4, "0" * 64))

    assert read_all(file) == [b"one"]


def test_from_end_hands_out_only_what_comes_later(path: Path, follow: Callable[[], LogFile]) -> None:
    append(path, b"one\ntw")
    file = follow()
    file.open_at(None, from_end=True)
    append(path, b"o\nthree\n")
    assert read_all(file) == [b"two", b"three"]


OPERATIONS = st.lists(st.sampled_from(["write", "write", "rotate", "compress", "copytruncate", "restart", "read"]))


@settings(max_examples=60)
@example(operations=["copytruncate", "restart", "read", "write", "rotate", "compress", "restart"])
@given(operations=OPERATIONS)
def test_whatever_happens_to_the_file_each_line_is_read_once(
    operations: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    append(path, b"line 0\n")
    clock_s = 1_700_000_000
    os.utime(path, (clock_s, clock_s))
    file, seen, written, rotated = LogFile(path), [], 1, 0
    file.open_at(None)

    for operation in operations:
        clock_s += 1
        if operation == "write":
            append(path, f"line {written}\n".encode())
            os.utime(path, (clock_s, clock_s))
            written += 1
        elif operation in ("rotate", "copytruncate") and path.stat().st_size:
            rotated += 1
            name = path.with_name(f"log.{rotated}")
            if operation == "rotate":
                path.rename(name)
                path.touch()
            else:
                # A file that was empty at the last look has no beginning that its copy could be known by.
                seen += file.read() + file.read()
                shutil.copyfile(path, name)
                path.write_bytes(b"")
                os.utime(name, (clock_s, clock_s))
            os.utime(path, (clock_s + 0.5, clock_s + 0.5))
        elif operation == "compress" and path.with_name(f"log.{rotated}").exists():
            compress(path.with_name(f"log.{rotated}"))
        elif operation == "restart":
            position = file.position
            file.close()
            file = LogFile(path)
            file.open_at(position)
        elif operation == "read":
            seen += file.read()
    seen += read_all(file, rounds=100)
    file.close()

    assert seen == [f"line {number}".encode() for number in range(written)]


def test_lines_that_a_crashed_run_may_have_sent_are_marked(path: Path) -> None:
    append(path, b"one\ntwo\nthree\n")
    inode = path.stat().st_ino
    source = FileSource(path, 1)
    source.open(FilePosition(inode, 4), FilePosition(inode, 8))

    batches = [batch for _ in range(3) for batch in source.read()]
    append(path, b"four\n")
    batches += source.read()
    source.close()

    assert [(batch.lines, batch.repeated) for batch in batches] == [
        ([b"two"], True),
        ([b"three"], False),
        ([b"four"], False),
    ]


def test_a_position_of_a_topic_is_refused_for_a_file(path: Path) -> None:
    with pytest.raises(TapError, match="to topic 'broker-logs', not to a file: use another"):
        FileSource(path, 1).open(TopicPosition("broker-logs", {0: 1}), None)


def test_a_checkpoint_survives_saving(tmp_path: Path) -> None:
    path = tmp_path / "position"
    assert load_checkpoint(path) is None
    watch = SavedWatch(LineOrder("run", 7, 1000, 2, gaps=[(3, 4)]), LearningTime(5, 1000), "file")
    checkpoint = Checkpoint(FilePosition(3, 4, 5, "a"), TopicPosition("t", {0: 7}), {1: watch})
    save_checkpoint(path, checkpoint)
    assert load_checkpoint(path) == checkpoint


def test_an_empty_position_file_as_after_a_crash_of_the_machine_is_none(tmp_path: Path) -> None:
    path = tmp_path / "position"
    path.touch()
    assert load_checkpoint(path) is None


def test_a_position_is_on_disk_before_it_takes_the_place_of_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, synced = tmp_path / "position", []
    first, second = (Checkpoint(FilePosition(3, offset, 5, "a")) for offset in (4, 5))
    save_checkpoint(path, first)

    def fsync(file: int) -> None:
        # Whole when it is synced, and not in the other's place yet.
        synced.append((load_checkpoint(Path(f"/proc/self/fd/{file}")), load_checkpoint(path)))

    monkeypatch.setattr(os, "fsync", fsync)
    save_checkpoint(path, second)
    assert synced == [(second, first)]
    assert load_checkpoint(path) == second


NO_POSITION = '{"position":{"type":"file","inode":1,"offset":-5}}'


@pytest.mark.parametrize("saved", ["rubbish", '{"q":' * 100_000, NO_POSITION], ids=["rubbish", "deep", "negative"])
def test_a_damaged_position_file_is_a_clear_error(tmp_path: Path, saved: str) -> None:
    path = tmp_path / "position"
    path.write_text(saved, encoding="ascii")
    with pytest.raises(TapError, match="delete it to start over"):
        load_checkpoint(path)


def test_a_pipe_in_the_place_of_the_log_holds_up_nobody(path: Path, file: LogFile) -> None:
    path.unlink()
    os.mkfifo(path)

    with pytest.raises(TapError, match="pipe or device"):
        read_all(file)


def test_folders_and_pipes_that_are_called_like_rotated_logs_are_left_alone(path: Path, file: LogFile) -> None:
    os.mkfifo(path.with_name(f"{path.name}.2"))
    path.with_name(f"{path.name}.3.gz").mkdir()

    path.rename(path.with_name(f"{path.name}.1"))
    append(path, b"two\n")

    assert read_all(file) == [b"two"]
