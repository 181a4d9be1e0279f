"""Finds the highest steady rate at which batches keep up, for the job and for a peer with the same trigger.

    .venv/bin/python bench/sustained.py --confirm-seconds 300                       # 1 s, 200 principals, against dedup
    .venv/bin/python bench/sustained.py --trigger-seconds 5 --principals 2000

A stream keeps up if it begins a batch per trigger and its unread events do not grow. The script doubles the rate until
the stream no longer keeps up, then bisects. It lowers the result by twentieths until the stream keeps up in a longer
run. Streams run one at a time, on one broker. The last line is JSON.
"""

import argparse
import json
import operator
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.loads import PARTITIONS, BenchError
from bench.processes import Batch, Place, Traffic, finished_batches, running_stream
from broker.local.local_broker import LocalBroker

PIDS_EACH = 5
START_S = 600.0
DRAIN_S = 300.0
SAMPLE_S = 1.0
SETTLE_SHARE = 1 / 3
LAG_TRIGGERS = 3
LAG_SLACK_S = 5.0
"""How far behind a stream may be in addition to `LAG_TRIGGERS`, for a garbage collection or an upload of state."""
HOPELESS_SAMPLES = 20
"""A trial ends early after this many samples in a row that are too far behind. One slow batch causes fewer."""
HOPELESS_S = 60.0
"""A trial ends early after this time without a batch per trigger."""
SETTLE_S = 10.0
LATE = 1.05
"""Maximum median time between the starts of batches, in trigger intervals."""
GROWTH = 1.25
GROWTH_SLACK_S = 0.5
SHORTFALL = 0.97
CONFIRM_STEP = 0.95
MIN_RATE = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trigger-seconds", type=float, default=1)
    parser.add_argument("--principals", type=int, default=200)
    parser.add_argument("--variants", default="job,dedup")
    parser.add_argument("--first-rate", type=int, default=10_000, help="first rate, in events per second")
    parser.add_argument("--highest-rate", type=int, default=640_000, help="about the most that the load can write")
    parser.add_argument("--steps", type=int, default=3, help="steps of bisection")
    parser.add_argument("--trial-seconds", type=float, default=40)
    parser.add_argument("--confirm-seconds", type=float, default=120)
    asked = parser.parse_args()
    found = {}
    with (
        tempfile.TemporaryDirectory(prefix="pid-quota-sustained-") as folder,
        LocalBroker(Path(folder, "kafka")) as broker,
    ):
        admin = AdminClient({**broker.admin_config()})
        for name in asked.variants.split(","):
            topic = f"bench-{name}"
            admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()
            place = Place(broker, topic, Path(folder, name))
            place.folder.mkdir()
            found[name] = sustained(place, name, asked)
    ratios = {f"{name}/dedup": ratio(found, name, "dedup") for name in found if name != "dedup" and "dedup" in found}
    print(json.dumps(vars(asked) | {"found": found, "ratios": ratios}))


def ratio(found: dict[str, dict[str, Any]], name: str, base: str) -> float | None:
    rate, other = found[name]["events_per_second"], found[base]["events_per_second"]
    return round(rate / other, 3) if other else None


def sustained(place: Place, name: str, asked: argparse.Namespace) -> dict[str, Any]:
    """Find the highest rate of one variant, and confirm it."""
    trigger = f"{round(asked.trigger_seconds * 1000)} milliseconds"
    with (
        running_stream(place.arguments(name, trigger), place.log) as require_alive,
        Traffic(place, asked.principals, PIDS_EACH, asked.first_rate / 10) as traffic,
    ):
        watched = Watched(place, require_alive, traffic, asked.trigger_seconds)
        watched.wait_for_start()
        found = highest(
            lambda rate: watched.keeps_up(rate, asked.trial_seconds), asked.first_rate, asked.highest_rate, asked.steps
        )
        # A short trial overestimates the rate.
        rate = found * CONFIRM_STEP
        while rate >= MIN_RATE and not watched.keeps_up(rate, asked.confirm_seconds):
            rate *= CONFIRM_STEP
        batches = finished_batches(place.checkpoint, place.topic)
    taken = statistics.median(each.end_s - each.begin_s for each in batches)
    print(f"  {name:16} {rate:>10,.0f} events/s, batches of {taken:.2f} s", flush=True)
    confirmed = {"events_per_second": round(rate), "batch_median_s": round(taken, 2), "trials": watched.trials}
    return confirmed | {"load_was_the_limit": found >= asked.highest_rate}


class Watched:
    """A stream under traffic."""

    def __init__(self, place: Place, require_alive: Callable[[], None], traffic: Traffic, trigger_s: float) -> None:
        self._place, self._require_alive, self._traffic, self._trigger_s = place, require_alive, traffic, trigger_s
        self.trials: list[dict[str, object]] = []

    def wait_for_start(self) -> None:
        """Wait until the stream has finished a few batches."""
        self._wait(lambda: len(self._batches()) >= 3, START_S)

    def keeps_up(self, rate: float, seconds: float) -> bool:
        """Run at a rate, and return whether the stream kept up; if not, let it catch up."""
        self._traffic.rate = rate
        written, begin = self._traffic.written, time.monotonic()
        trial = Trial(self._trigger_s, settled_s=time.time() + SETTLE_S)
        while (elapsed_s := time.monotonic() - begin) < seconds and not trial.is_hopeless(elapsed_s):
            time.sleep(SAMPLE_S)
            self._require_alive()
            batches = self._batches()
            trial.add(self._behind(batches) / rate, batches)
        reached = (self._traffic.written - written) / elapsed_s
        kept = elapsed_s >= seconds and reached >= rate * SHORTFALL and trial.is_kept_up_with()
        found: dict[str, object] = {"rate": round(rate), "reached": round(reached), "seconds": round(elapsed_s)}
        found |= {"lag_s": trial.lag_s(), "interval_s": trial.interval_s(), "kept_up": kept}
        self.trials.append(found)
        print(f"    {found}", flush=True)
        if not kept:
            self._traffic.rate = 0
            self._wait(lambda: self._behind(self._batches()) == 0, DRAIN_S)
        return kept

    def _batches(self) -> list[Batch]:
        return finished_batches(self._place.checkpoint, self._place.topic)

    def _behind(self, batches: Sequence[Batch]) -> int:
        """Return the number of unread events, from the number of unread records and the mean events per record."""
        behind = self._traffic.records - (batches[-1].end_offset if batches else 0)
        return round(behind * self._traffic.written / max(self._traffic.records, 1))

    def _wait(self, holds: Callable[[], bool], limit_s: float) -> None:
        give_up_at = time.monotonic() + limit_s
        while not holds():
            self._require_alive()
            if time.monotonic() > give_up_at:
                log = self._place.log.read_text(encoding="utf-8", errors="replace").strip()[-400:]
                msg = f"the stream did not start or catch up within {limit_s:.0f} s; the end of its log: {log}"
                raise BenchError(msg)
            time.sleep(SAMPLE_S)


class Trial:
    """Samples of a stream at one rate."""

    def __init__(self, trigger_s: float, settled_s: float = 0.0) -> None:
        self._trigger_s, self._settled_s = trigger_s, settled_s
        self._lags_s: list[float] = []
        self._begins_s: dict[int, float] = {}

    def add(self, lag_s: float, batches: Sequence[Batch]) -> None:
        """Add a sample: the unread events in seconds of traffic, and the batches in the checkpoint."""
        self._lags_s.append(lag_s)
        self._begins_s |= {each.number: each.begin_s for each in batches if each.begin_s >= self._settled_s}

    def lag_s(self) -> float:
        """Return how far behind the stream was in the second half of the trial."""
        return round(statistics.median(self._lags_s[len(self._lags_s) // 2 :]), 2)

    def interval_s(self) -> float | None:
        """Return the median time between the starts of batches; None for fewer than two batches."""
        begins = [begin for _, begin in sorted(self._begins_s.items())]
        return round(statistics.median(map(operator.sub, begins[1:], begins)), 2) if len(begins) > 1 else None

    def is_kept_up_with(self) -> bool:
        """Return whether there was a batch per trigger, and the backlog was bounded and did not grow."""
        settled = self._lags_s[int(len(self._lags_s) * SETTLE_SHARE) :]
        half = len(settled) // 2
        if not half or not self._has_a_batch_per_trigger():
            return False
        first, last = statistics.median(settled[:half]), statistics.median(settled[half:])
        return last <= most_lag_s(self._trigger_s) and last <= first * GROWTH + GROWTH_SLACK_S + self._trigger_s / 2

    def is_hopeless(self, elapsed_s: float) -> bool:
        """Return whether the stream has been too slow for so long that the trial can't succeed."""
        last = self._lags_s[-HOPELESS_SAMPLES:]
        if len(last) == HOPELESS_SAMPLES and min(last) > most_lag_s(self._trigger_s):
            return True
        return elapsed_s >= HOPELESS_S and not self._has_a_batch_per_trigger()

    def _has_a_batch_per_trigger(self) -> bool:
        interval_s = self.interval_s()
        return interval_s is not None and interval_s <= self._trigger_s * LATE


def most_lag_s(trigger_s: float) -> float:
    """Return how far behind a stream may be, in seconds of traffic."""
    return LAG_TRIGGERS * trigger_s + LAG_SLACK_S


def highest(keeps_up: Callable[[float], bool], first: float, limit: float, steps: int) -> float:
    """Return approximately the highest rate at which a stream keeps up; 0 if there is none.

    Args:
        keeps_up: Returns whether a stream keeps up at a rate.
        first: First rate. It is halved until the stream keeps up, or doubled until it does not.
        limit: Highest rate to try.
        steps: Bisections between the highest rate that passed and the lowest that failed.
    """
    rate = min(first, limit)
    if keeps_up(rate):
        good = rate
        while good < limit and keeps_up(rate := min(good * 2, limit)):
            good = rate
        if good >= limit:
            return good
        bad = rate
    else:
        while not keeps_up(rate / 2):
            rate /= 2
            if rate < MIN_RATE:
                return 0.0
        good, bad = rate / 2, rate
    for _ in range(steps):
        middle = (good + bad) / 2
        good, bad = (middle, bad) if keeps_up(middle) else (good, middle)
    return good


if __name__ == "__main__":
    main()
