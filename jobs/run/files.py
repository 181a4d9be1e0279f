"""Files that are read again when their content changes."""

import hashlib
from pathlib import Path


class WatchedFile:
    """A file's content, compared by digest.

    A ConfigMap or a Secret of Kubernetes changes a link, and neither name nor inode of the file tell when.

    Attributes:
        unreadable: why the file can't be read; empty if it can.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.unreadable = path, ""
        self._digest = b""
        self.has_changed()

    def has_changed(self) -> bool:
        """Return whether the content differs from that of the call before. A file that can't be read is the same."""
        try:
            found = hashlib.sha256(self.path.read_bytes()).digest()
        except OSError as error:
            self.unreadable = error.strerror or type(error).__name__
            return False
        self.unreadable = ""
        before, self._digest = self._digest, found
        return found != before
