"""Measures how soon enforcement acts: from the use of a PID over the quota until the broker holds the user.

In each trial, a new user asks for 200 PIDs a second, and uses each. There is one broker, and a hold comes into force
when the broker says so. Both ways of measuring count, and a figure is that of the slower way:

- from the delivery of the first message over the quota until the hold
- from the delivery of the last message within the quota to that with the user's last PID

`event` is the time from the append of a new PID's batch until the PID's event is in its topic.
"""

import json
import time
from collections.abc import Sequence
from functools import partial

import numpy as np
from confluent_kafka import Consumer, TopicPartition

from bench.kit import Figure, Found, decided_s, figure, in_background, running_broker, running_product, wait_until
from bench.raw_client import flood
from broker.local.local_broker import LocalBroker
from wire.event_record import parse_events
from wire.topics import PRODUCE_EVENTS, REPORTS

QUOTA = 20
"""New PIDs per hour. A bucket of 20 admits 21."""
TRIALS, WARM_UPS, RATE = 30, 5, 200
_LIMIT_S, _IDLE_S = 60.0, 3.0


def measure(share: float) -> Found:
    number = max(4, round(share * TRIALS))
    asap, every_second = (lever(trigger, number) for trigger in ("asap", "1 second"))
    return {"figures": {key.replace("lever_", "lever_asap_"): each for key, each in asap.items()} | every_second}


def lever(trigger: str, number: int) -> dict[str, Figure]:
    """Return the figures of trials with one trigger."""
    users = {f"u{each:02d}": f"secret-{each}" for each in range(WARM_UPS + number)}
    options = {"enforce": "true", "max_held": 1000}
    with running_broker(users=users, pid_quota_partitions=1) as (broker, folder):
        with running_product(broker, folder / "run", QUOTA, trigger, **options) as child:
            reports, trials = reader(broker, REPORTS), dict[str, tuple[list[float], float]]()
            for user in users:
                child.is_alive()
                trials[f"User:{user}"] = trial(broker, reports, user)
            reports.close()
            since_s = decided_s(folder / "run")
        events_s = event_times(broker)
    counted = dict(list(trials.items())[WARM_UPS:])
    since_commit_s = [held_s - since_s[principal] for principal, (_, held_s) in counted.items()]
    found = lever_figures(list(counted.values())) | {"decision_to_hold_p50_s": figure(since_commit_s)}
    return found | {f"event_p{each}_s": figure(events_s, each) for each in (50, 99)}


def lever_figures(trials: Sequence[tuple[Sequence[float], float]]) -> dict[str, Figure]:
    """Return the figures of the slower way of measuring, given the times of deliveries and hold of each trial."""
    to_hold_s = [held_s - delivered_s[QUOTA + 1] for delivered_s, held_s in trials]
    to_last_pid_s = [delivered_s[-1] - delivered_s[QUOTA] for delivered_s, _ in trials]
    found = {}
    for percent in (50, 99):
        slower = max(to_hold_s, to_last_pid_s, key=lambda values: figure(values, percent)["value"])
        found[f"lever_p{percent}_s"] = figure(slower, percent)
    return found


def trial(broker: LocalBroker, reports: Consumer, user: str) -> tuple[list[float], float]:
    """Use new PIDs as a user until the broker holds the user. Return the times of deliveries, and of the hold."""
    delivered_s = list[float]()
    # A hold follows a trigger, and so would the next trial.
    time.sleep(float(np.random.default_rng().uniform(0, 1)))
    with in_background(partial(flood, broker, user, RATE, lambda: delivered_s.append(time.time()))):
        held_s = await_hold(reports, f"User:{user}")
        time.sleep(_IDLE_S / 10)
    return delivered_s, held_s


def await_hold(reports: Consumer, principal: str) -> float:
    """Return since when the broker holds a user, in seconds since the epoch, by its reports."""
    since_s = list[float]()

    def is_held() -> bool:
        message = reports.poll(0.01)
        held = json.loads(message.value() or b"{}").get("held", ()) if message is not None else ()
        since_s.extend(each["since_ms"] / 1000 for each in held if each["principal"] == principal)
        return bool(since_s)

    wait_until(is_held, f"{principal} is held", _LIMIT_S, pause_s=0)
    return since_s[0]


def event_times(broker: LocalBroker) -> list[float]:
    """Return how long the first event of each PID took from the append to its topic, in seconds."""
    found, events = dict[int, float](), reader(broker, PRODUCE_EVENTS)
    while (message := events.poll(_IDLE_S)) is not None:
        _, appended_ms = message.timestamp()
        for event in parse_events(message.value() or b""):
            found.setdefault(event.producer_id, (appended_ms - event.timestamp_ms) / 1000)
    events.close()
    return list(found.values())


def reader(broker: LocalBroker, topic: str) -> Consumer:
    """Return a consumer of the only partition of a topic from its begin."""
    consumer = Consumer({**broker.admin_config(), "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    return consumer
