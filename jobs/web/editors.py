"""Editors of quotas in the console: passwords hashed with scrypt, sessions, and a limit on attempts."""

import base64
import hashlib
import hmac
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

import typer

MIN_PASSWORD_LENGTH = 12
IDLE_S, SESSION_S = 30 * 60.0, 8 * 3600.0
"""A session ends after `IDLE_S` seconds without use, and at the latest after `SESSION_S` seconds."""

_COST, _BLOCK, _PARALLEL = 2**15, 8, 1
_MEMORY = 2 * 128 * _COST * _BLOCK
_MAX_SESSIONS = 100
_MAX_ADDRESSES = 1_000
_WITHIN_S = 300.0
_OF_AN_ADDRESS, _OF_ALL = 10, 60
"""Maximum sign-in attempts in five minutes, per address and in total."""


def editor_line(name: str, password: str) -> str:
    """Return an editor's line for the file of editors."""
    if not name or ":" in name or not name.isprintable():
        msg = f"the name {name!r} is invalid: give one without ':'"
        raise typer.BadParameter(msg)
    if len(password) < MIN_PASSWORD_LENGTH:
        msg = f"the password has {len(password)} characters, not {MIN_PASSWORD_LENGTH} or more"
        raise typer.BadParameter(msg)
    salt = secrets.token_bytes(16)
    return ":".join((name, base64.b64encode(salt).decode(), base64.b64encode(_hash(password, salt)).decode()))


def _hash(password: str, salt: bytes) -> bytes:
    text = password.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(text, salt=salt, n=_COST, r=_BLOCK, p=_PARALLEL, maxmem=_MEMORY)


@dataclass
class _Session:
    name: str
    ends: float
    idle_at: float


@dataclass
class Editors:
    """The editors and their sessions.

    Attributes:
        hashes: Salt and password hash by name.
        clock: Monotonic time in seconds.
    """

    hashes: Mapping[str, tuple[bytes, bytes]] = field(repr=False)
    clock: Callable[[], float] = time.monotonic
    _sessions: dict[str, _Session] = field(default_factory=dict, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)
    _attempts_by_address: dict[str, deque[float]] = field(default_factory=dict, repr=False)
    _attempts: deque[float] = field(default_factory=deque, repr=False)

    @classmethod
    def load(cls, file: Path) -> "Editors":
        """Read a file of lines that `--new-editor` printed. Ignore comments."""
        try:
            mode, lines = file.stat().st_mode, file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            msg = f"--editors {file} can't be read ({error}). Give the file that --new-editor fills"
            raise typer.BadParameter(msg) from error
        if mode & 0o007:
            msg = f"--editors {file} is open to every user of this machine. Run chmod 640 {file}"
            raise typer.BadParameter(msg)
        hashes = {}
        for number, line in enumerate(lines, start=1):
            if not line.strip() or line.startswith("#"):
                continue
            try:
                name, salt, hashed = line.strip().split(":")
                hashes[name] = (base64.b64decode(salt, validate=True), base64.b64decode(hashed, validate=True))
            except ValueError as error:
                msg = f"--editors {file}, line {number} is not what --new-editor prints. Create it again"
                raise typer.BadParameter(msg) from error
        if not hashes:
            msg = f"--editors {file} names nobody. Add a line with: pid-quota console --new-editor NAME"
            raise typer.BadParameter(msg)
        return cls(hashes)

    def wait_s(self, address: str) -> float:
        """Count a sign-in attempt and return 0. After too many attempts, only return the seconds to wait."""
        now = self.clock()
        with self._lock:
            mine = self._attempts_by_address.get(address) or deque()
            for times, most in ((mine, _OF_AN_ADDRESS), (self._attempts, _OF_ALL)):
                while times and times[0] <= now - _WITHIN_S:
                    times.popleft()
                if len(times) >= most:
                    return times[0] + _WITHIN_S - now
            mine.append(now)
            self._attempts_by_address[address] = mine
            self._attempts.append(now)
            for stale in list(self._attempts_by_address)[:-_MAX_ADDRESSES]:
                del self._attempts_by_address[stale]
        return 0.0

    def sign_in(self, name: str, password: str) -> str | None:
        """Return a new session's secret; None if name or password is wrong. Both cases take the same time."""
        salt, wanted = self.hashes.get(name, (b"-" * 16, b""))
        if not hmac.compare_digest(_hash(password, salt), wanted):
            return None
        secret, now = secrets.token_urlsafe(32), self.clock()
        with self._lock:
            self._drop_ended(now)
            self._sessions[_key(secret)] = _Session(name, now + SESSION_S, now + IDLE_S)
            for oldest in list(self._sessions)[:-_MAX_SESSIONS]:
                del self._sessions[oldest]
        return secret

    def user(self, secret: str) -> str | None:
        """Restart a session's idle time, and return its editor's name; None if there is no such session."""
        now = self.clock()
        with self._lock:
            self._drop_ended(now)
            session = self._sessions.get(_key(secret))
            if session is None:
                return None
            session.idle_at = now + IDLE_S
            return session.name

    def sign_out(self, secret: str) -> None:
        """End a session."""
        with self._lock:
            self._sessions.pop(_key(secret), None)

    def _drop_ended(self, now: float) -> None:
        for key, session in list(self._sessions.items()):
            if now >= min(session.ends, session.idle_at):
                del self._sessions[key]


def _key(secret: str) -> str:
    # The key is a hash, so that the time of a look-up reveals nothing about the secret.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
