"""The demo's folder and child processes."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jobs.errors import JobError
from jobs.output.terminal import one_line
from jvm.process import end, start_watched

if TYPE_CHECKING:
    import subprocess

MARKER = ".made-by-pid-quota-demo"
"""The file that marks a demo's folder. The demo never replaces a folder without this file."""

ADDRESS_FILE, CHECKPOINT = "address", "checkpoint"
"""Names in the demo's folder: the file with the broker's address, and the stream's checkpoint."""

_STOP_S = 20.0
_QUOTED_CHARS = 400


def prepare_folder(folder: Path) -> None:
    """Create an empty folder for the demo's tables, or replace an earlier demo's folder."""
    try:
        if folder.is_dir() and any(folder.iterdir()):
            if not (folder / MARKER).is_file():
                msg = f"{folder} is not empty and was not made by the demo. Choose another folder with --tables"
                raise JobError(msg)
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARKER).write_text("`pid-quota demo` made this folder and will replace it.\n", encoding="utf-8")
    except OSError as error:
        msg = f"tables path {folder} is not writable ({error.strerror}). Choose another folder with --tables"
        raise JobError(msg) from error


class Child:
    """A child process that runs within a `with` block."""

    def __init__(self, name: str, arguments: Sequence[str], log: Path) -> None:
        self._name, self._command, self._log = name, [sys.executable, *arguments], log
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Child":
        self._process = start_watched(self._command, self._log)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the process if it runs."""
        process, self._process = self._process, None
        if process is not None:
            end(process, _STOP_S)

    def require_alive(self) -> None:
        """Raise `JobError` if the process has ended."""
        code = self._process.poll() if self._process else None
        if code is not None:
            last = one_line(self._log.read_text(encoding="utf-8", errors="replace").strip()[-_QUOTED_CHARS:])
            msg = f"the {self._name} ended with exit code {code}: {last or 'no output'}. Its log: {self._log}"
            raise JobError(msg)
