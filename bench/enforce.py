"""Measures how soon enforcement acts: from a request over the quota to the hold, with the stream.

    .venv/bin/python bench/enforce.py                    # a trigger of 1 s; takes two minutes
    .venv/bin/python bench/enforce.py --trigger asap

Everything runs on this machine, with the embedded broker. In each trial, a new user makes a producer for each message.
Times are in seconds. A hold counts as in force when the broker's report of it arrives, some 50 ms after it is:

- over quota -> hold: from the delivery of the first message over the quota
- last id -> hold: from the delivery with the user's last producer id
- record -> hold: from the record in the topic of holds

The last line is JSON.
"""

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

from confluent_kafka import KafkaError, Producer

from bench.kit import percentiles
from bench.processes import running_stream
from broker.enforcement.hold_topic import HoldTopic, steady_ms
from broker.local.local_broker import LocalBroker
from jobs.demo.broker import demo_broker
from jobs.demo.clients import create_topic
from tables.quotas.quota_entry import QuotaEntry
from tables.quotas.quota_table import set_quota
from tables.store.path_tables import create_missing

LIMIT_S = 120.0
QUOTA = 20
"""New producer ids per hour. A bucket of 20 admits 21."""
PAUSE_S = 0.02


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--trigger", default="1 second", help="trigger of the stream")
    parser.add_argument("--warm-up", type=int, default=5, help="first trials, which do not count")
    asked = parser.parse_args()
    users = {f"u{number:02d}": f"secret-{number}" for number in range(asked.warm_up + asked.trials)}
    with tempfile.TemporaryDirectory() as folder, demo_broker(Path(folder, "broker"), users) as broker:
        create_topic(broker.admin_config())
        broker.wait_for_plugin()
        with stream(broker, Path(folder), asked.trigger), HoldTopic(broker.admin_config()) as topic:
            trials = [trial(broker, topic, user) for user in users][asked.warm_up :]
    names = ("over quota -> hold", "last id -> hold", "record -> hold")
    found = {name: {"n": len(trials), **percentiles([each[at] for each in trials])} for at, name in enumerate(names)}
    print(json.dumps({"trigger": asked.trigger, "found": found}))


@contextmanager
def stream(broker: LocalBroker, folder: Path, trigger: str) -> Iterator[None]:
    """Run a stream that enforces, and wait until it decides."""
    tables, log = str(folder / "tables"), folder / "stream.log"
    create_missing(tables)
    set_quota(tables, QuotaEntry(None, float(QUOTA), datetime.now(timezone.utc), "bench"))
    options = ["--bootstrap-servers", broker.admin_servers, "--tables", tables, "--checkpoint", str(folder / "state")]
    more = ["--trigger", trigger, "--enforce", "--max-held", "1000", "--master", "local[1]"]
    with running_stream(["-m", "jobs", "stream", *options, *more], log) as require_alive:
        give_up_at = time.monotonic() + LIMIT_S
        while "quotas in force" not in log.read_text():
            require_alive()
            if time.monotonic() > give_up_at:
                raise TimeoutError(log.read_text())
            time.sleep(PAUSE_S)
        yield


def trial(broker: LocalBroker, topic: HoldTopic, user: str) -> tuple[float, float, float]:
    """Make producers as a user until the broker holds the user. Return the three times in seconds."""
    delivered_s = list[float]()
    is_over = threading.Event()

    def delivered(error: KafkaError | None, _message: object) -> None:
        if error is None:
            delivered_s.append(time.monotonic())

    def flood() -> None:
        settings = {**broker.client_config(user), "enable.idempotence": True, "linger.ms": 0, "log_level": 0}
        while not is_over.is_set():
            producer = Producer(settings)
            producer.produce("orders", b"x", on_delivery=delivered)
            while producer.flush(PAUSE_S) and not is_over.is_set():
                pass

    client = threading.Thread(target=flood)
    client.start()
    principal, written_s, give_up_at = f"User:{user}", 0.0, time.monotonic() + LIMIT_S
    try:
        while not topic.state.confirming(principal, steady_ms()):
            topic.poll(0.001)
            if not written_s and principal in topic.state.holds:
                written_s = time.monotonic()
            if time.monotonic() > give_up_at:
                msg = f"{principal} was not held within {LIMIT_S:g} s"
                raise TimeoutError(msg)
        held_s = time.monotonic()
    finally:
        is_over.set()
        client.join()
    before = [each for each in delivered_s if each <= held_s]
    return held_s - before[QUOTA + 1], held_s - before[-1], held_s - written_s


if __name__ == "__main__":
    main()
