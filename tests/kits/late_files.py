"""A file system with the limits of Databricks' `/Volumes`, as another process than the writer sees it.

A FAKE: no workspace can be opened here. Databricks documents for volumes that there are no appends and no random writes
("Files in Unity Catalog volumes", limitations), and none of locks. What is late is assumed: another process sees a new
file, a new version of one, or a deletion only after a delay, in listings and by name. A rename copies, then deletes.

    python -m tests.kits.late_files BACKING MOUNT DELAY_S
"""

import errno
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mfusepy

_COPIED_AT_A_TIME = 512
_TOOLS = ("bash", "chmod", "readlink")


@dataclass
class Change:
    """The newest change of a file.

    Attributes:
        writer: Process that made it, and sees it at once.
        seen_at_s: When the others see it, by the monotonic clock.
        before: Content that they see until then, None if the file was not there.
    """

    writer: int
    seen_at_s: float
    before: bytes | None = None


@dataclass
class LateFiles(mfusepy.Operations):  # type: ignore[misc]
    """Files in a backing folder, with the changes that some processes don't see yet."""

    backing: Path
    delay_s: float
    changes: dict[str, Change] = field(default_factory=dict)
    opened: dict[int, bytes] = field(default_factory=dict)

    use_ns = True

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        old = self._old(path)
        if old is not None and old.before is None:
            raise mfusepy.FuseOSError(errno.ENOENT)
        try:
            found = self._real(path).lstat()
        except FileNotFoundError:
            if old is None:
                raise mfusepy.FuseOSError(errno.ENOENT) from None
            return {"st_mode": 0o100644, "st_nlink": 1, "st_size": len(old.before or b""), "st_mtime": 0}
        size = found.st_size if old is None else len(old.before or b"")
        kept = {name: getattr(found, name) for name in ("st_mode", "st_nlink", "st_uid", "st_gid")}
        return kept | {"st_size": size, "st_mtime": found.st_mtime_ns, "st_ctime": found.st_ctime_ns}

    def readdir(self, path: str, fh: int) -> list[str]:
        there = {each.name for each in self._real(path).iterdir()}
        for changed, _ in list(self.changes.items()):
            folder, _, name = changed.rpartition("/")
            old = self._old(changed) if (folder or "/") == path else None
            if old is not None:
                (there.add if old.before is not None else there.discard)(name)
        return [".", "..", *there]

    def mkdir(self, path: str, mode: int) -> None:
        self._real(path).mkdir(mode)

    def rmdir(self, path: str) -> None:
        self._real(path).rmdir()

    def create(self, path: str, mode: int, fi: object = None) -> int:
        self._changed(path)
        return os.open(self._real(path), os.O_RDWR | os.O_CREAT | os.O_TRUNC, mode)

    def open(self, path: str, flags: int) -> int:
        if flags & os.O_APPEND:
            raise mfusepy.FuseOSError(errno.EOPNOTSUPP)
        old = self._old(path)
        if old is None:
            if flags & (os.O_WRONLY | os.O_RDWR):
                self._changed(path)
            return os.open(self._real(path), flags)
        handle = os.open("/dev/null", os.O_RDONLY)
        self.opened[handle] = old.before or b""
        return handle

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        if fh in self.opened:
            return self.opened[fh][offset : offset + size]
        return os.pread(fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        if offset != os.fstat(fh).st_size:
            raise mfusepy.FuseOSError(errno.EOPNOTSUPP)
        return os.pwrite(fh, data, offset)

    def truncate(self, path: str, length: int, fh: int | None = None) -> None:
        if length:
            raise mfusepy.FuseOSError(errno.EOPNOTSUPP)
        os.truncate(self._real(path), 0)

    def release(self, path: str, fh: int) -> None:
        self.opened.pop(fh, None)
        os.close(fh)

    def unlink(self, path: str) -> None:
        self._changed(path)
        self._real(path).unlink()

    def rename(self, old: str, new: str, flags: int = 0) -> None:
        content = self._real(old).read_bytes()
        self._changed(new)
        with self._real(new).open("wb") as file:
            for begin in range(0, len(content), _COPIED_AT_A_TIME):
                file.write(content[begin : begin + _COPIED_AT_A_TIME])
                file.flush()
        self.unlink(old)

    def chmod(self, path: str, mode: int) -> None:
        """Do nothing: a volume has no modes."""

    def chown(self, path: str, uid: int, gid: int) -> None:
        """Do nothing: a volume has no owners."""

    def utimens(self, path: str, times: object = None) -> None:
        """Do nothing."""

    def statfs(self, path: str) -> dict[str, int]:
        return {"f_bsize": 4096, "f_frsize": 4096, "f_blocks": 10**9, "f_bavail": 10**9, "f_bfree": 10**9}

    def _real(self, path: str) -> Path:
        return self.backing / path.lstrip("/")

    def _changed(self, path: str) -> None:
        real = self._real(path)
        seen = self._old(path)
        before = seen.before if seen else real.read_bytes() if real.exists() else None
        self.changes[path] = Change(_process(), time.monotonic() + self.delay_s, before)

    def _old(self, path: str) -> Change | None:
        """Return the change of a file that the asking process does not see yet."""
        change = self.changes.get(path)
        if change is None or change.writer == _process():
            return None
        if time.monotonic() >= change.seen_at_s:
            return None
        return change


def _process() -> int:
    """Return the process that asks, given its thread; for a tool that Hadoop runs, the process that runs it."""
    *_, number = mfusepy.fuse_get_context()
    while True:
        try:
            status = Path(f"/proc/{number}/status").read_text(encoding="ascii", errors="replace")
        except OSError:
            return int(number)
        about = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        if about["Name"] not in _TOOLS:
            return int(about["Tgid"])
        number = about["PPid"]


def main() -> None:
    backing, mount, delay_s = sys.argv[1:]
    uncached = {"attr_timeout": 0, "entry_timeout": 0, "negative_timeout": 0}
    mfusepy.FUSE(LateFiles(Path(backing), float(delay_s)), mount, foreground=True, nothreads=True, **uncached)


if __name__ == "__main__":
    main()
