"""The folder of `pid-quota run`: one `run` at a time uses it."""

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from jobs.run.errors import FolderTakenError
from jobs.run.settings import RunSettings, scratch_of

LOCK = "run.lock"
_PARTS = ("stream", "console", "tables", "quotas", "maintain", "census", "look")


@contextmanager
def own_folder(settings: RunSettings) -> Iterator[None]:
    """Lock the folder during the `with` block, and empty the folder of temporary files.

    Raises:
        FolderTakenError: If another `run` uses the folder, or it can't be written.
    """
    with ExitStack() as stack:
        try:
            settings.data.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context((settings.data / LOCK).open("a+", encoding="ascii"))
            _take(lock.fileno(), settings.data)
            lock.truncate(0)
            lock.write(f"{os.getpid()}\n")
            lock.flush()
            shutil.rmtree(settings.scratch, ignore_errors=True)
            for part in _PARTS:
                empty(scratch_of(settings, part))
        except OSError as error:
            msg = f"--data {settings.data} can't be written ({error.strerror}): give another folder, or free or open it"
            raise FolderTakenError(msg) from error
        yield


def _take(lock: int, folder: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        number = (folder / LOCK).read_text(encoding="ascii", errors="replace").strip()
        who = f" (process {number})" if number else ""
        msg = f"another `pid-quota run`{who} uses --data {folder}: end it, or give another folder"
        raise FolderTakenError(msg) from error


def empty(folder: Path) -> None:
    """Make a folder that only this user can read, without content."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def with_token(settings: RunSettings) -> RunSettings:
    """Return settings with a token for the console if it needs one and the user gave none.

    The token stays the same over restarts, and is in no log.
    """
    if not settings.needs_token:
        return settings
    file = settings.own_token_file
    if not file.exists():
        number = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(number, "w", encoding="ascii") as made:
            made.write(f"{secrets.token_urlsafe(32)}\n")
    return replace(settings, console_token_file=file)
