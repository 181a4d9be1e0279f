"""Reads Spark's own files in a checkpoint folder, without a JVM.

Spark writes `offsets/N` before batch N runs, and `commits/N` afterwards.
"""

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from streaming.checkpoint.own_files import await_file
from streaming.errors import CheckpointDamagedError, CheckpointError, CheckpointInUseError

LOCK_FILE = "pid-quota.lock"
START_ANEW = "restore it from a backup, or start with an empty folder as --checkpoint and --new-checkpoint"
"""Remedy if only a backup may have the content of a damaged file."""

Offsets = dict[str, dict[int, int]]
"""Next offset to read, by topic and partition."""


def newest_batch(checkpoint: str, otherwise: str = START_ANEW) -> int | None:
    """Return the number of the newest batch that has begun; None if no batch has begun.

    Raises:
        CheckpointDamagedError: If a file that Spark needs is damaged. Spark would end with a stack trace, or repeat a
            batch with other records. `otherwise` is the message's advice if deleting the file does not help.
    """
    begun, done = (_newest(Path(checkpoint) / folder) for folder in ("offsets", "commits"))
    if done is not None and not _is_whole(Path(checkpoint) / "commits" / str(done)):
        msg = (
            f"{checkpoint}/commits/{done} is truncated: delete it and .{done}.crc beside it, and start again; Spark "
            f"then repeats batch {done}, and the tables skip rows that they have"
        )
        raise CheckpointDamagedError(msg)
    metadata = Path(checkpoint) / "metadata"
    if metadata.exists() and not _is_json(metadata.read_text(encoding="utf-8", errors="replace")):
        msg = f"{metadata}, Spark's own file, is damaged: {otherwise}"
        raise CheckpointDamagedError(msg)
    # Spark reads the two newest files.
    for number in () if begun is None else (begun, begun - 1):
        file = Path(checkpoint) / "offsets" / str(number)
        if file.exists() and not _is_whole(file):
            msg = f"{file} is damaged, so the records of batch {number} are unknown: {otherwise}"
            raise CheckpointDamagedError(msg)
    _require_whole_sources(Path(checkpoint), otherwise, has_batches=begun is not None)
    return begun


def _require_whole_sources(checkpoint: Path, otherwise: str, *, has_batches: bool) -> None:
    """Check the files with the first offsets. Spark parses these files at every start."""
    for file in checkpoint.glob("sources/*/0"):
        # These files start with a zero byte.
        if not _is_whole(file, skip=1):
            remedy = f"delete it and .0.crc beside it, and start again: a newer batch of {checkpoint} has the offsets"
            msg = f"{file}, Spark's own file, is damaged: {remedy if has_batches else otherwise}"
            raise CheckpointDamagedError(msg)


@contextmanager
def lock_checkpoint(checkpoint: str) -> Iterator[None]:
    """Lock a checkpoint during the `with` block. Two streams on one checkpoint would abort each other's batches.

    If the file system has no locks, Spark detects the second stream only when it runs a batch.

    Raises:
        CheckpointInUseError: If another process on this machine holds the lock.
    """
    with ExitStack() as stack:
        try:
            # `load_or_create` reports checkpoints that are not folder paths.
            if "://" not in checkpoint:
                Path(checkpoint).mkdir(parents=True, exist_ok=True)
                lock = stack.enter_context((Path(checkpoint) / LOCK_FILE).open("a"))
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise in_use(checkpoint) from error
        except OSError:
            # The first write to the folder reports the error.
            stack.close()
        yield


def in_use(checkpoint: str) -> CheckpointInUseError:
    """Return the error for a checkpoint that another stream uses."""
    return CheckpointInUseError(
        f"another stream runs on checkpoint {checkpoint}: stop that one first, or give this one its own "
        f"--checkpoint and --tables"
    )


def batch_offsets(checkpoint: str, batch_id: int) -> Offsets:
    """Return the end offsets of a batch that has begun; empty if `batch_id` is -1 or the source is not Kafka.

    Raises:
        CheckpointError: If Spark's file does not appear, or can't be read.
    """
    return parse_offsets(_offsets_file(checkpoint, batch_id)[-1]) if batch_id >= 0 else {}


def committed_offsets(checkpoint: str) -> Offsets | None:
    """Return the end offsets of the newest finished batch; None if no batch has finished."""
    done = _newest(Path(checkpoint) / "commits")
    return None if done is None else batch_offsets(checkpoint, done)


def batch_begin_ms(checkpoint: str, batch_id: int) -> int | None:
    """Return the driver's time when a batch began; None if unknown.

    A repeated batch has the time of its first attempt.

    Raises:
        CheckpointError: If Spark's file does not appear, or can't be read.
    """
    try:
        return int(json.loads(_offsets_file(checkpoint, batch_id)[1])["batchTimestampMs"])
    except (IndexError, ValueError, KeyError, TypeError):
        return None


def _offsets_file(checkpoint: str, batch_id: int) -> list[str]:
    """Return the lines of Spark's file `offsets/N`."""
    file = Path(checkpoint) / "offsets" / str(batch_id)
    try:
        return await_file(file, _whole_lines)
    except (OSError, ValueError) as error:
        msg = (
            f"batch {batch_id} runs, but {file} can't be read ({error}): every machine must see the checkpoint's folder"
        )
        raise CheckpointError(msg) from error


def _whole_lines(content: bytes) -> list[str]:
    lines = content.decode().splitlines()
    if len(lines) < 2:
        msg = "it is truncated"
        raise ValueError(msg)
    return lines


def parse_offsets(text: str) -> Offsets:
    """Parse offsets from Spark's JSON. The result is empty if the source is not Kafka.

    Examples:
        >>> parse_offsets('{"produce-events":{"1":5,"0":7}}')
        {'produce-events': {1: 5, 0: 7}}
        >>> parse_offsets('{"logOffset":3}'), parse_offsets("-")
        ({}, {})
    """
    try:
        content = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(content, dict) or not all(isinstance(each, dict) for each in content.values()):
        return {}
    return {topic: {int(number): int(at) for number, at in each.items()} for topic, each in content.items()}


def as_spark_json(offsets: Mapping[str, Mapping[int, int]]) -> str:
    """Return offsets in the form of Spark's option `startingOffsets`."""
    return json.dumps({topic: {str(number): at for number, at in each.items()} for topic, each in offsets.items()})


def _newest(folder: Path) -> int | None:
    if not folder.is_dir():
        return None
    return max((int(file.name) for file in folder.iterdir() if file.name.isdecimal()), default=None)


def _is_whole(file: Path, skip: int = 0) -> bool:
    """Return whether a file has a version line, then complete lines of JSON (or `-`)."""
    version, *entries = file.read_text(encoding="utf-8", errors="replace")[skip:].splitlines() or [""]
    return version.startswith("v") and bool(entries) and all(entry == "-" or _is_json(entry) for entry in entries)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
