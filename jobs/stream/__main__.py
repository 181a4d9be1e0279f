"""`python -m jobs.stream` is `pid-quota stream`."""

from jobs.cli import run_command
from jobs.stream.command import stream

if __name__ == "__main__":
    run_command(stream)
