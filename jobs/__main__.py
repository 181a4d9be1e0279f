"""The program `pid-quota`, also `python -m jobs`."""

import os
import signal
import sys


def main() -> None:
    """Run `pid-quota`.

    The libraries take a while to import. Meanwhile, a signal ends `run` as later: without an error, and also as the
    first process of a container, where signals without a handler are lost.
    """
    if next((each for each in sys.argv[1:] if not each.startswith("-")), "") == "run":
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: os._exit(0))
    from jobs import cli

    cli.main()


if __name__ == "__main__":
    main()
