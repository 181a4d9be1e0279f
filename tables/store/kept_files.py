"""Caches the rows of small files. A stream writes a small file per batch, and opening many files is slow."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    import pyarrow as pa

SMALL_BYTES = 64 << 10
"""Maximum size of a cached file."""
MAX_KEPT_BYTES = 64 << 20
"""A table's cache is emptied if its rows exceed this size in Arrow's format."""


class KeptFiles:
    """The cached rows of one table's small files, which never change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: frozenset[str] = frozenset()
        self._rows: pa.Table | None = None

    def rows(
        self, wanted: Collection[str], present: Collection[str], read: Callable[[Sequence[str]], pa.Table]
    ) -> pa.Table:
        """Return the rows of the wanted files, and perhaps of other files of the table.

        `present` are all files of the table's newest version.
        """
        import pyarrow as pa

        with self._lock:
            if not self._files <= frozenset(present):
                self._files, self._rows = frozenset(), None
            new = [path for path in wanted if path not in self._files]
            if new or self._rows is None:
                read_now = read(new)
                self._rows = (
                    read_now if self._rows is None else pa.concat_tables([self._rows, read_now]).combine_chunks()
                )
                self._files |= frozenset(new)
            found = self._rows
            if found.nbytes > MAX_KEPT_BYTES:
                self._files, self._rows = frozenset(), None
            return found


KeptTables = defaultdict[tuple[str, str], KeptFiles]
"""Cached rows by table name and column names. Threads may share the cache."""
