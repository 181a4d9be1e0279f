"""Which principals the state holds, as the driver knows it after each batch and the tasks of the next one read it.

The operator says which principals it began and forgot to track; the driver keeps the sum of it in the checkpoint
folder, one file per batch that changed it. A batch reads the newest file before its own number, so a repeated batch
finds what it found the first time.
"""

import hashlib
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec
import numpy as np
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from streaming.checkpoint import newest_batch
from streaming.errors import CheckpointError

TRACKED = "tracked"
FORGOTTEN = "forgotten"
OVERFLOWED = "overflowed"
NOTES = (TRACKED, FORGOTTEN, OVERFLOWED)
"""Kinds of the operator's rows that are for the roster, and go to no table."""

FOLDER = "pid-quota-principals"
_KEPT_FILES = 2
_CODE_BYTES = 8

_log = logging.getLogger(__name__)


def code_of(principal: str) -> int:
    """Return 64 bits that stand for a principal: of 50,000 principals two share theirs once in 1e10 deployments."""
    return int.from_bytes(hashlib.blake2b(principal.encode(), digest_size=_CODE_BYTES).digest(), "little", signed=True)


class Roster(msgspec.Struct, frozen=True, array_like=True):
    """The principals that the state holds.

    Attributes:
        codes: `code_of` of each, ascending, as int64 in the machine's order.
        overflowed_ms: Newest event time of a principal that could not be tracked; 0 if all could.
    """

    codes: bytes = b""
    overflowed_ms: int = 0

    def __len__(self) -> int:
        return len(self.codes) // _CODE_BYTES

    def holds(self, principals: Iterable[str]) -> np.ndarray:
        """Say of each principal whether it is tracked."""
        return np.isin(np.fromiter(map(code_of, principals), np.int64), self._array())

    def changed(self, tracked: Iterable[int], forgotten: Iterable[int], overflowed_ms: int) -> "Roster":
        """Return the roster after a batch."""
        codes = np.union1d(self._array(), np.fromiter(tracked, np.int64))
        codes = np.setdiff1d(codes, np.fromiter(forgotten, np.int64), assume_unique=True)
        return Roster(codes.tobytes(), max(overflowed_ms, self.overflowed_ms))

    def _array(self) -> np.ndarray:
        return np.frombuffer(self.codes, np.int64)


def no_roster() -> Roster:
    """Return an empty roster, for a stream that has no limit of principals."""
    return Roster()


@lru_cache(maxsize=2)
def _read(file: Path, _version: int) -> Roster:
    # A batch that is repeated writes its file anew: then it has another version.
    return msgspec.msgpack.decode(file.read_bytes(), type=Roster)


def roster_before(checkpoint: str, batch_id: int) -> Roster:
    """Return the roster that holds for a batch: the newest of the batches before it.

    Raises:
        CheckpointError: If it can't be read.
    """
    number = max((each for each in _numbers(checkpoint) if each < batch_id), default=None)
    if number is None:
        return Roster()
    file = _file(checkpoint, number)
    try:
        return _read(file, file.stat().st_mtime_ns)
    except (OSError, msgspec.MsgspecError) as error:
        msg = f"{file} can't be read ({error}): delete it, and stop and start the stream"
        raise CheckpointError(msg) from error


def save_roster(checkpoint: str, batch_id: int, roster: Roster) -> None:
    """Keep the roster of a batch, and drop those that no batch needs any more."""
    file = _file(checkpoint, batch_id)
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(".tmp")
    temporary.write_bytes(msgspec.msgpack.encode(roster))
    temporary.replace(file)
    for number in sorted(each for each in _numbers(checkpoint) if each <= batch_id)[:-_KEPT_FILES]:
        _file(checkpoint, number).unlink(missing_ok=True)


def batch_of_task() -> int:
    """Return the number of the micro-batch that this task belongs to; 0 outside of a stream."""
    task = TaskContext.get()
    return int((task and task.getLocalProperty("streaming.sql.batchId")) or 0)


def ensure_roster(spark: SparkSession, checkpoint: str) -> None:
    """Make the roster of a checkpoint that was written without one, from the state itself."""
    begun = newest_batch(checkpoint)
    done = [int(file.name) for file in Path(checkpoint, "commits").glob("*") if file.name.isdecimal()]
    if begun is None or not done or _numbers(checkpoint):
        return
    keys = spark.read.format("statestore").load(checkpoint).select("key.principal").collect()
    save_roster(checkpoint, max(done), Roster().changed((code_of(row[0]) for row in keys), (), 0))


@dataclass(frozen=True)
class KeepRoster:
    """A function for `foreachBatch`: does another one's work, and keeps the roster.

    Attributes:
        checkpoint: Folder of the checkpoint.
        commit: Takes the operator's output without the notes for the roster.
    """

    checkpoint: str
    commit: Callable[[DataFrame, int], None]

    def __call__(self, output: DataFrame, batch_id: int) -> None:
        """Commit a batch, then keep what it says of the roster. Both happen again if a crash repeats the batch."""
        output = output.persist()
        try:
            self.commit(output.where(~output.kind.isin(*NOTES)), batch_id)
            notes = output.where(output.kind.isin(*NOTES)).collect()
        finally:
            output.unpersist()
        if not notes:
            return
        by_kind: dict[str, list[int]] = {kind: [] for kind in NOTES}
        for note in notes:
            by_kind[note.kind].append(int(note.body))
        before = roster_before(self.checkpoint, batch_id)
        overflowed_ms = max(by_kind[OVERFLOWED], default=0)
        if overflowed_ms:
            _log.warning("batch %d: more principals than --max-principals, see overflow-NN in the metrics", batch_id)
        after = before.changed(by_kind[TRACKED], by_kind[FORGOTTEN], overflowed_ms)
        if after != before:
            save_roster(self.checkpoint, batch_id, after)


def _numbers(checkpoint: str) -> list[int]:
    try:
        return [int(file.stem) for file in Path(checkpoint, FOLDER).iterdir() if file.suffix == ".msgpack"]
    except FileNotFoundError:
        return []


def _file(checkpoint: str, batch_id: int) -> Path:
    return Path(checkpoint, FOLDER, f"{batch_id}.msgpack")
