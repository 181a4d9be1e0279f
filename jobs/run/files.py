"""Files that are read again when their content changes."""

import hashlib
from pathlib import Path


class WatchedFile:
    """A file's content, compared by digest.

    A ConfigMap or a Secret of Kubernetes changes a link, and neither name nor inode of the file tell when.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._digest = _digest(path)

    def has_changed(self) -> bool:
        """Return whether the content differs from that of the call before. A file that can't be read is the same."""
        found = _digest(self.path)
        if found is None or found == self._digest:
            return False
        self._digest = found
        return True


def _digest(path: Path) -> bytes | None:
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return None
