"""Finds the processes that a test started, whatever their parent."""

import os
import time
from pathlib import Path

MARK = "PID_QUOTA_TEST_PROCESS"
"""A variable in the environment of all that a process of pytest starts; each has its own value."""
_ENDS_WITHIN_S = 20.0


def processes_naming(text: object) -> list[int]:
    """Return the processes, without this one, that have a text in their command or their first environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            says = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            # It has ended, or is another user's.
            continue
        if str(text).encode() in says and int(process.name) != os.getpid():
            found.append(int(process.name))
    return found


def left_of(text: object) -> list[str]:
    """Return the commands of the processes that have a text and don't end: what was killed takes a moment."""
    give_up_at = time.monotonic() + _ENDS_WITHIN_S
    while (found := processes_naming(text)) and time.monotonic() < give_up_at:
        time.sleep(0.1)
    return [f"{pid}: {_command(pid)}" for pid in found]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:500]
    except OSError:
        return "has ended by now"
