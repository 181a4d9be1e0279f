"""Remembers whom each producer id was handed out to, for very many of them in little memory.

What is in use lies in a dict; bindings of transactional ids, which nothing else can tell, also in a temporary SQLite
file: ten million of them took 1.8 GB of disk and 132 MB of memory with the dict full, where a dict alone would take
4 GB; a look-up in the file takes 6 µs (measured). Both forget the longest unused: the dict one by one, the file by
generations, so that a flood costs no more than steady work.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import time
from pathlib import Path

import msgspec

from broker.closing import Closing
from wire.records import Binding

HOT_BINDINGS = 200_000
"""Bindings in memory, of about 400 bytes each."""

STORED_BINDINGS = 10_000_000
"""Bindings of transactional ids on disk, of about 180 bytes each."""

_PREFIX = "pid-quota-bindings-"
# Of a tap that was killed between making its folder and removing it, or of an earlier version.
_LEFT_BEHIND_S = 60.0
_CACHE_KIB = 32 * 1024
_BATCH = 10_000

_CREATE_YOUNG = "CREATE TABLE young (id INTEGER PRIMARY KEY, epoch INTEGER, handed_out_ms INTEGER, value BLOB)"
_CREATE_OLD = "CREATE TABLE old (id INTEGER PRIMARY KEY, epoch INTEGER, handed_out_ms INTEGER, value BLOB)"
_UPSERT = (
    "INSERT INTO young VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE "
    "SET epoch = excluded.epoch, handed_out_ms = excluded.handed_out_ms, value = excluded.value "
    "WHERE (excluded.epoch, excluded.handed_out_ms) > (epoch, handed_out_ms)"
)
_SELECT = (
    "SELECT value, epoch, handed_out_ms FROM young WHERE id = ? "
    "UNION ALL SELECT value, epoch, handed_out_ms FROM old WHERE id = ? ORDER BY 2 DESC, 3 DESC"
)

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Binding).decode


class Bindings(Closing):
    """Bindings by producer id; the one with the higher epoch, then the later one, wins.

    Args:
        folder: where the temporary file lies; the system's own folder for such if left out.
        hot: how many are kept in memory.
        stored: how many of transactional ids are kept on disk at least, and twice that at most.
    """

    def __init__(self, folder: Path | None = None, *, hot: int = HOT_BINDINGS, stored: int = STORED_BINDINGS) -> None:
        self._hot: dict[int, Binding] = {}
        self._hot_limit = hot
        self._generation = stored
        self._young = 0
        self._unwritten: dict[int, Binding] = {}
        _remove_stale(Path(folder or tempfile.gettempdir()))
        with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=folder) as name:
            self._store = sqlite3.connect(Path(name) / "bindings", isolation_level=None, check_same_thread=False)
            # Nothing here outlives the process: no journal, no syncing, and, once it is open, no name.
            for pragma in (
                "journal_mode=OFF",
                "synchronous=OFF",
                f"cache_size=-{_CACHE_KIB}",
                "locking_mode=EXCLUSIVE",
            ):
                self._store.execute(f"PRAGMA {pragma}")
            self._store.execute(_CREATE_OLD)
        self._store.execute(_CREATE_YOUNG)

    def close(self) -> None:
        """Forget everything."""
        self._store.close()

    def find(self, producer_id: int) -> Binding | None:
        """The binding of an id, wherever it lies; it counts as used."""
        hot = self.find_hot(producer_id)
        if hot is not None:
            return hot
        stored = self._find_stored(producer_id)
        if stored is not None:
            self._promote(stored)
        return stored

    def find_hot(self, producer_id: int) -> Binding | None:
        """The binding of an id if it lies in memory; it counts as used."""
        hot = self._hot
        found = hot.pop(producer_id, None)
        if found is not None:
            # Back in as the last: the first of a dict is the longest unused.
            hot[producer_id] = found
        return found

    def add(self, binding: Binding, *, hot: bool = True) -> bool:
        """Remember a binding.

        Args:
            binding: as it was seen or read.
            hot: it is likely to be used soon; those read from the topic by the million are not.

        Returns:
            False if one at least as new is known already.
        """
        known = self._hot.get(binding.producer_id) or self._unwritten.get(binding.producer_id)
        if known is not None and not binding.is_newer_than(known):
            return False
        if hot or binding.producer_id in self._hot:
            self._promote(binding)
        if binding.transactional_id is not None:
            self._keep(binding)
        return True

    def _promote(self, binding: Binding) -> None:
        hot = self._hot
        hot.pop(binding.producer_id, None)
        hot[binding.producer_id] = binding
        if len(hot) > self._hot_limit:
            del hot[next(iter(hot))]

    def _find_stored(self, producer_id: int) -> Binding | None:
        waiting = self._unwritten.get(producer_id)
        if waiting is not None:
            return waiting
        rows = self._store.execute(_SELECT, (producer_id, producer_id)).fetchall()
        if not rows:
            return None
        found = _decode(rows[0][0])
        if len(rows) == 1:
            # In use: it must not go with the older half.
            self._keep(found)
        return found

    def _keep(self, binding: Binding) -> None:
        self._unwritten[binding.producer_id] = binding
        if len(self._unwritten) >= _BATCH:
            self._write()

    def _write(self) -> None:
        rows = [
            (each.producer_id, each.producer_epoch, each.timestamp_ms, _encode(each))
            for each in self._unwritten.values()
        ]
        self._store.execute("BEGIN")
        self._store.executemany(_UPSERT, rows)
        self._store.execute("COMMIT")
        self._young += len(rows)
        self._unwritten.clear()
        if self._young >= self._generation:
            self._store.execute("DROP TABLE old")
            self._store.execute("ALTER TABLE young RENAME TO old")
            self._store.execute(_CREATE_YOUNG)
            self._young = 0


def _remove_stale(folder: Path) -> None:
    """Remove what killed taps left; another one that runs has its file open and does not need the name."""
    for left in folder.glob(f"{_PREFIX}*"):
        try:
            old = time.time() - left.stat().st_mtime > _LEFT_BEHIND_S
        except FileNotFoundError:
            continue
        if old:
            shutil.rmtree(left, ignore_errors=True)
