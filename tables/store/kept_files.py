"""Keeps the rows of small files in memory. A stream writes a small file per batch, and opening a thousand is slow."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    import pyarrow as pa

SMALL_BYTES = 64 << 10
"""The rows of files up to this size are kept. Maintenance makes larger files, of which readers skip most row groups."""
MAX_KEPT_BYTES = 64 << 20
"""Limit of a table's kept rows, in Arrow's format."""


class KeptFiles:
    """The rows of one table's small files. Data files never change, so each is read once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: frozenset[str] = frozenset()
        self._rows: pa.Table | None = None

    def rows(
        self, wanted: Collection[str], present: Collection[str], read: Callable[[Sequence[str]], pa.Table]
    ) -> pa.Table:
        """Return the rows of the wanted files. Rows of the table's other files may be among them.

        Args:
            wanted: Paths of small files.
            present: Paths of all files of the table's newest version.
            read: Reads files.
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
"""Kept rows of path tables, by name and columns. All threads of a long-running reader share them."""
