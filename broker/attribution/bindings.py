"""Bindings of producer ids to principals: an LRU dict over a temporary SQLite file.

The dict holds bindings in use; the file also holds those of transactional ids, which no other source can tell. Ten
million took 1.8 GB of disk and 132 MB of memory with the dict full, where a dict alone would take 4 GB; a look-up in
the file takes 6 µs (measured). Both evict the least recently used: the dict one by one, the file by generations, so
that a flood costs no more than steady work.
"""

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
# Age at which a folder counts as left by a killed tap.
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
    """Bindings by producer id; the higher epoch wins, then the later one.

    Args:
        folder: of the temporary file; by default the system's temporary folder.
        hot: capacity of the dict.
        stored: least number of transactional ids kept on disk; at most twice as many.
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
            # Nothing here outlives the process: no journal, no fsync, and the open file has no name.
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
        """Close the file; drops all bindings."""
        self._store.close()

    def find(self, producer_id: int) -> Binding | None:
        """The binding of an id, from the dict or the file; marks it as used."""
        hot = self.find_hot(producer_id)
        if hot is not None:
            return hot
        stored = self._find_stored(producer_id)
        if stored is not None:
            self._promote(stored)
        return stored

    def find_hot(self, producer_id: int) -> Binding | None:
        """The binding of an id if it is in the dict; marks it as used."""
        hot = self._hot
        found = hot.pop(producer_id, None)
        if found is not None:
            # Reinsert at the end: the first key is the least recently used.
            hot[producer_id] = found
        return found

    def add(self, binding: Binding, *, hot: bool = True) -> bool:
        """Add a binding.

        Args:
            binding: from the log or the topic.
            hot: keep it in the dict, since it is likely to be used soon; bulk loads from the topic are not.

        Returns:
            False if one at least as new is known.
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
            # In use: copy it to the young generation.
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
    """Remove folders of killed taps; a running tap has its file open and does not need the name."""
    for left in folder.glob(f"{_PREFIX}*"):
        try:
            old = time.time() - left.stat().st_mtime > _LEFT_BEHIND_S
        except FileNotFoundError:
            continue
        if old:
            shutil.rmtree(left, ignore_errors=True)
