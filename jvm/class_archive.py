"""Class-data archives of the JVM (JEP 350). An archive makes a broker start in two thirds of the time.

The first broker with a given class path writes the archive when the broker stops cleanly. A JVM runs the code in an
archive, so archives are in a folder that only this user can write to.
"""

import hashlib
import os
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jvm.java import java_version

_FOLDER = "~/.cache/pid-quota/class-archives"
_OTHERS = 0o077
_KEPT = 6
"""Number of archives to keep. An archive takes 50 MB."""


@dataclass(frozen=True)
class ClassArchive:
    """The class-data archive (CDS) of a class path and a Java version.

    A JVM writes the archive to `own`, and `keep` moves it to `file`. Both are None if there is no folder that only this
    user can write to.
    """

    file: Path | None
    own: Path | None

    @classmethod
    def find(cls, java: str, classpath: str) -> "ClassArchive":
        """Return the archive of a class path for the Java at the path `java`."""
        folder = _private_folder()
        if folder is None:
            return cls(None, None)
        digest = hashlib.sha256("\n".join((java, java_version(java), classpath)).encode()).hexdigest()[:16]
        return cls(folder / f"{digest}.jsa", folder / f"{digest}.{uuid.uuid4().hex}.new")

    def options(self, *, write: bool) -> tuple[str, ...]:
        """Return JVM options that use the archive or, if it is missing and `write` is true, write it on exit."""
        if self.file is not None and self.file.exists():
            return (f"-XX:SharedArchiveFile={self.file}",)
        return (f"-XX:ArchiveClassesAtExit={self.own}",) if write and self.own is not None else ()

    def keep(self) -> None:
        """Keep the archive that a JVM wrote on exit, and delete old archives."""
        if self.file is not None and self.own is not None:
            with suppress(OSError):
                self.own.replace(self.file)
                others = sorted(self.file.parent.glob("*.jsa"), key=lambda each: each.stat().st_mtime)
                for each in others[:-_KEPT]:
                    each.unlink()


def _private_folder() -> Path | None:
    folder = Path(_FOLDER).expanduser()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = folder.stat()
    except (OSError, RuntimeError):
        return None
    return folder if about.st_uid == os.getuid() and not about.st_mode & _OTHERS else None
