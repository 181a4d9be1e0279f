"""Runs a program that must not outlive its starter: `python watchdog.py PROGRAM ARGUMENTS...`.

This process leads a session, forks a small watchdog, and becomes PROGRAM with the same process id. The watchdog reads
standard input, a pipe whose other end only the starter has open. When the starter ends for any reason, the pipe closes,
and the watchdog kills the whole process group. PR_SET_PDEATHSIG works only on Linux, and would end the program with the
*thread* that started it. This module needs only the standard library.
"""

import os
import signal
import sys


def watch(group: int) -> None:
    """Wait until the starter has ended or closed the pipe, then kill the program's process group."""
    while os.read(0, 4096):
        pass
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        # All processes of the group have ended.
        return


def main() -> None:
    """Fork the watchdog, then become the program."""
    program_pid = os.getpid()
    if os.fork() == 0:
        # The watchdog has its own group, so the starter does not wait for it. It stays in the program's session, so no
        # other process gets the session's number.
        os.setpgid(0, 0)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(null, 2)
        watch(program_pid)
        os._exit(0)
    os.execv(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
