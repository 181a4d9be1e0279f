"""What Spark keeps in a checkpoint folder, as far as we must judge it: which batches began, and from where to where.

Spark's own layout: `offsets/N` is written before batch N runs, `commits/N` after it. Needs no JVM.
"""

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from streaming.errors import CheckpointDamagedError, CheckpointError

LOCK_FILE = "pid-quota.lock"

Offsets = dict[str, dict[int, int]]
"""Next offset to read, by topic and partition."""


def newest_batch(checkpoint: str) -> int | None:
    """Return the number of the newest batch that began, or None if none ever did.

    Raises:
        CheckpointDamagedError: If the newest file of `offsets` or `commits` is cut short, as a full disk or a crash of
            the machine leaves it. Spark would end in a stack trace, or repeat a batch over other records.
    """
    begun, done = (_newest(Path(checkpoint) / folder) for folder in ("offsets", "commits"))
    if done is not None and not _is_whole(Path(checkpoint) / "commits" / str(done)):
        msg = (
            f"{checkpoint}/commits/{done} is cut short: delete it and .{done}.crc beside it, and start again; batch "
            f"{done} is then repeated, and the tables take no row of it twice"
        )
        raise CheckpointDamagedError(msg)
    if begun is not None and not _is_whole(Path(checkpoint) / "offsets" / str(begun)):
        msg = (
            f"{checkpoint}/offsets/{begun} is cut short, so nobody knows which records batch {begun} had: restore the "
            f"folder from a backup, or start with an empty folder as --checkpoint and --new-checkpoint"
        )
        raise CheckpointDamagedError(msg)
    return begun


@contextmanager
def lock_checkpoint(checkpoint: str) -> Iterator[None]:
    """Hold a checkpoint for the block: two streams on one would end each other in the middle of a batch.

    Where the file system knows no locks, Spark's own log still finds the other one out, with its first batch.

    Raises:
        CheckpointError: If another process of this machine holds it.
    """
    with ExitStack() as stack:
        try:
            # What is no folder path is refused elsewhere.
            if "://" not in checkpoint:
                Path(checkpoint).mkdir(parents=True, exist_ok=True)
                lock = stack.enter_context((Path(checkpoint) / LOCK_FILE).open("a"))
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise in_use(checkpoint) from error
        except OSError:
            # Whatever can't be written here is said, in its own words, by who writes more than a lock.
            stack.close()
        yield


def in_use(checkpoint: str) -> CheckpointError:
    """Return the error for a checkpoint on which another stream runs."""
    return CheckpointError(
        f"another stream runs on checkpoint {checkpoint}: end that one first, or give this one a --checkpoint and "
        f"--tables of its own"
    )


def batch_offsets(checkpoint: str, batch_id: int) -> Offsets:
    """Return where a batch ends; empty if the batch never began, or its source is not Kafka."""
    try:
        lines = (Path(checkpoint) / "offsets" / str(batch_id)).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    return parse_offsets(lines[-1] if lines else "")


def committed_offsets(checkpoint: str) -> Offsets | None:
    """Return where the newest finished batch ends; None if none has finished."""
    done = _newest(Path(checkpoint) / "commits")
    return None if done is None else batch_offsets(checkpoint, done)


def batch_begin_ms(checkpoint: str, batch_id: int) -> int | None:
    """Return the driver's clock at the begin of a batch, in ms since the epoch; None if the batch never began.

    Spark writes it down with the offsets, so a batch that is repeated has the time of its first begin.
    """
    try:
        lines = (Path(checkpoint) / "offsets" / str(batch_id)).read_text(encoding="utf-8").splitlines()
        return int(json.loads(lines[1])["batchTimestampMs"])
    except (FileNotFoundError, IndexError, ValueError, KeyError, TypeError):
        return None


def parse_offsets(text: str) -> Offsets:
    """Return offsets out of Spark's JSON for them; empty if it is of another source than Kafka.

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
    """Return offsets as Spark's option `startingOffsets` takes them."""
    return json.dumps({topic: {str(number): at for number, at in each.items()} for topic, each in offsets.items()})


def _newest(folder: Path) -> int | None:
    if not folder.is_dir():
        return None
    return max((int(file.name) for file in folder.iterdir() if file.name.isdecimal()), default=None)


def _is_whole(file: Path) -> bool:
    """Say whether a file of Spark's log holds its version line and, after it, lines of whole JSON (or `-`)."""
    version, *entries = file.read_text(encoding="utf-8", errors="replace").splitlines() or [""]
    return version.startswith("v") and bool(entries) and all(entry == "-" or _is_json(entry) for entry in entries)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
