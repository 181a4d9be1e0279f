"""A supervisor: starts a process with a producer of its own, sees it die, and starts it again after a while.

A program, so that it holds nothing that a fork would break: see `churn_kit.restarts`.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator

from confluent_kafka import Producer

_FLUSH_S = 20.0


def supervise(options: dict[str, str], topic: str, delays: Iterator[float], seconds: float) -> None:
    ends_at = time.monotonic() + seconds
    for delay_s in delays:
        # Nothing of the client library runs in this process.
        child = os.fork()
        if child == 0:
            die_at_work(options, topic)
        os.waitpid(child, 0)
        if time.monotonic() + delay_s > ends_at:
            return
        time.sleep(delay_s)


def die_at_work(options: dict[str, str], topic: str) -> None:
    try:
        producer = Producer(options)
        for _ in range(3):
            producer.produce(topic, b"value")
        producer.flush(_FLUSH_S)
    finally:
        os.kill(os.getpid(), signal.SIGKILL)


def growing(first_s: float, factor: float) -> Iterator[float]:
    while True:
        yield first_s
        first_s *= factor


if __name__ == "__main__":
    wanted, to_topic, first_delay_s, growth, run_seconds = json.load(sys.stdin)
    supervise(wanted, to_topic, growing(first_delay_s, growth), run_seconds)
