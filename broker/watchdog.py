"""Runs a program that must not outlive its starter: `python watchdog.py PROGRAM ARGUMENTS...`.

The process that is started becomes PROGRAM (same process id), after it has forked a small watchdog. The watchdog reads
standard input, a pipe whose other end only the starter holds. However the starter ends, also by SIGKILL, the kernel
closes that end, the read returns, and the watchdog kills PROGRAM. Unlike PR_SET_PDEATHSIG this works beyond Linux, and
it does not fire when only the *thread* that started the program ends.

Runs without this package on the path: standard library only.
"""

import os
import signal
import sys


def watch(program_pid: int) -> None:
    """Wait until the starter is gone, then kill the program, if it is still our parent."""
    while os.read(0, 4096):
        pass
    # Once the program has died we have another parent, and its process id may have been reused.
    if os.getppid() == program_pid:
        os.kill(program_pid, signal.SIGKILL)


def main() -> None:
    """Fork the watchdog, become the program."""
    program_pid = os.getpid()
    if os.fork() == 0:
        # Ctrl-C in a terminal reaches the whole group: leave it to the starter.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.setpgid(0, 0)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(null, 2)
        watch(program_pid)
        os._exit(0)
    os.execv(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
