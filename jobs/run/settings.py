"""The settings of `pid-quota run`, and the folders and the environment that its children get."""

import os
import pwd
from dataclasses import dataclass, field
from pathlib import Path

from jobs.options import LOGIN_FILE, first_line
from jobs.run.log import LogFormat
from jobs.services.listening import CONSOLE_FD, LOOPBACK, METRICS_FD, Address, is_loopback

CONSOLE_VARIABLE = "PID_QUOTA_CONSOLE_TOKEN"
ASKS_BROKERS = ("stream", "census", "look")
"""The children that log in at the brokers."""
NAME = "pid-quota"
"""Name of a user that has none, as in a container that runs as a number."""


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """What a user sets. `data` is absolute."""

    bootstrap_server: str
    data: Path
    kafka_config: Path | None = None
    kafka_password_file: Path | None = None
    quotas_file: Path | None = None
    trigger: str = "5 seconds"
    window_seconds: int = 3600
    enforce: bool = False
    never: tuple[str, ...] = ()
    max_held: int = 10
    console: Address = (LOOPBACK, 8080)
    console_token_file: Path | None = None
    metrics: Address = (LOOPBACK, 9404)
    log_format: LogFormat = "text"
    more_stream_options: tuple[str, ...] = field(default=())

    @property
    def tables(self) -> Path:
        """The folder of the tables."""
        return self.data / "tables"

    @property
    def checkpoint(self) -> Path:
        """The folder of the stream's checkpoint."""
        return self.data / "checkpoint"

    @property
    def scratch(self) -> Path:
        """The folder of temporary files. Each start of `run` empties it."""
        return self.data / "tmp"

    @property
    def needs_token(self) -> bool:
        """Whether the console needs a token, and the user gave none. An empty file or variable gives none."""
        is_given = _has_text(self.console_token_file) or bool(os.environ.get(CONSOLE_VARIABLE, "").strip())
        return not (is_given or is_loopback(self.console[0]))

    @property
    def own_token_file(self) -> Path:
        """The file of the console's token if the user gives none and the console needs one."""
        return self.data / "console-token"


def _has_text(file: Path | None) -> bool:
    """Whether there is a file whose first line says something. The console tells what is wrong with another one."""
    try:
        return file is not None and bool(first_line(file))
    except OSError:
        return True


def environment(settings: RunSettings, part: str, **more: str) -> dict[str, str]:
    """Return the environment of a child. Only the console gets the token.

    A user without a name or a home, and a read-only root file system, are enough: all temporary files go to a folder of
    the part below `settings.scratch`.
    """
    kept = {name: value for name, value in os.environ.items() if name not in (CONSOLE_FD, METRICS_FD)}
    if part != "console":
        kept.pop(CONSOLE_VARIABLE, None)
    if part not in ASKS_BROKERS:
        kept.pop(LOGIN_FILE, None)
    folder = scratch_of(settings, part)
    made = {
        "PYTHONUNBUFFERED": "1",
        # What `jobs.run.log.Lines` reads, whatever the terminal shows.
        "PYTHONIOENCODING": "utf-8:backslashreplace",
        # A panic of a library is one line (`jobs.run.children`).
        "RUST_BACKTRACE": "0",
        "TMPDIR": str(folder),
        "SPARK_LOCAL_DIRS": str(folder),
    }
    if not _has_name():
        made |= {"USER": NAME, "LOGNAME": NAME, "SPARK_USER": NAME}
    if not os.access(Path(os.environ.get("HOME", "/nonexistent")), os.W_OK):
        made |= {"HOME": str(folder)}
    return kept | made | more


def scratch_of(settings: RunSettings, part: str) -> Path:
    """Return the folder of a part's temporary files."""
    return settings.scratch / part


def _has_name() -> bool:
    """Return whether the user has a name in the system's list of users."""
    try:
        return bool(pwd.getpwuid(os.getuid()).pw_name)
    except KeyError:
        return False
