"""Runs a program that must not outlive its starter: `python watchdog.py PROGRAM ARGUMENTS...`.

The started process leads a session of its own and becomes PROGRAM (same process id), after it has forked a small
watchdog. The watchdog reads standard input, a pipe whose other end only the starter holds. However the starter ends,
the read returns, and the watchdog kills the whole process group. Unlike PR_SET_PDEATHSIG this works beyond Linux, and
it does not fire when only the *thread* that started the program ends. It needs the standard library only.
"""

import os
import signal
import sys


def watch(group: int) -> None:
    """Wait until the starter is gone, then kill what is left of the program's process group."""
    while os.read(0, 4096):
        pass
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        # Nothing is left.
        return


def main() -> None:
    """Fork the watchdog, become the program."""
    program_pid = os.getpid()
    if os.fork() == 0:
        # A group of its own, which the starter does not wait for, in the program's session: while a session has a
        # member, no other process gets its number.
        os.setpgid(0, 0)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(null, 2)
        watch(program_pid)
        os._exit(0)
    os.execv(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
