"""The folder of `pid-quota run`: one `run` at a time uses it."""

import errno
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from jobs.errors import JobError, WrongSettingError
from jobs.run.settings import RunSettings, scratch_of

LOCK = "run.lock"
_TOKEN = re.compile(r"[\w-]{16,}\n?", re.ASCII)
_OF_A_PERSON = frozenset(
    {errno.EACCES, errno.EEXIST, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EPERM, errno.EROFS}
)
"""Errors of a folder that last until a person does something."""
_PARTS = ("stream", "console", "tables", "quotas", "maintain", "census", "look")


@contextmanager
def own_folder(settings: RunSettings) -> Iterator[RunSettings]:
    """Lock the folder during the `with` block, and empty the folder of temporary files.

    Yields:
        The settings, with a token for the console if it needs one and the user gave none.

    Raises:
        JobError: If another `run` uses the folder, or its disk is full.
        WrongSettingError: If it is no folder, or this user can't write it.
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
            settings = _with_token(settings)
        except OSError as error:
            reason = "it is no folder" if isinstance(error, FileExistsError | NotADirectoryError) else error.strerror
            msg = f"--data {settings.data} can't be written ({reason}): give another folder, or free or open it"
            raise (WrongSettingError if error.errno in _OF_A_PERSON else JobError)(msg) from error
        yield settings


def _take(lock: int, folder: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        number = (folder / LOCK).read_text(encoding="ascii", errors="replace").strip()
        who = f" (process {number})" if number else ""
        msg = f"another `pid-quota run`{who} uses --data {folder}: end it, or give another folder"
        raise JobError(msg) from error


def empty(folder: Path) -> None:
    """Make a folder that only this user can read, without content."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _with_token(settings: RunSettings) -> RunSettings:
    """Return settings with a token for the console if it needs one and the user gave none.

    The token stays the same over restarts, and is in no log. What a crash left of its file counts as none.
    """
    if not settings.needs_token:
        return settings
    file = settings.own_token_file
    if not (file.is_file() and _TOKEN.fullmatch(file.read_text(encoding="ascii", errors="replace"))):
        new = file.with_suffix(".new")
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as made:
            made.write(f"{secrets.token_urlsafe(32)}\n")
            made.flush()
            os.fsync(made.fileno())
        new.replace(file)
    return replace(settings, console_token_file=file)
