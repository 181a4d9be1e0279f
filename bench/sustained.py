"""What is the highest steady rate at which batches keep up, of the job and of a peer at the same trigger?

    .venv/bin/python bench/sustained.py --confirm-seconds 300                       # 1 s, 200 principals, against dedup
    .venv/bin/python bench/sustained.py --trigger-seconds 5 --principals 2000

A stream keeps up if what it has not read yet stays within a few triggers' worth of events and does not grow. The rate
is doubled until it does not, then bisected; a tenth less than what comes out is run for longer, and again a tenth less
until that is kept up with. Streams are processes of their own, one at a time, on one broker. The last line is JSON.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import bench_kit as kit
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from process_kit import Place, Traffic, finished_batches, python_path

from broker.local import LocalBroker
from jobs.demo.processes import Child

PIDS_EACH = 5
START_S = 600.0
DRAIN_S = 300.0
SAMPLE_S = 1.0
SETTLE_SHARE = 1 / 3
LAG_TRIGGERS = 3
LAG_SLACK_S = 5.0
"""Besides the triggers: what a batch may take that meets a collection of garbage, or an upload of state."""
HOPELESS_SAMPLES = 20
"""So long too far behind, and a trial ends early: no single slow batch is to blame."""
GROWTH = 1.25
GROWTH_SLACK_S = 0.5
SHORTFALL = 0.97
CONFIRM_STEP = 0.9
LEAST_RATE = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trigger-seconds", type=float, default=1)
    parser.add_argument("--principals", type=int, default=200)
    parser.add_argument("--variants", default="job,dedup")
    parser.add_argument("--first-rate", type=int, default=10_000, help="events per second to begin with")
    parser.add_argument("--highest-rate", type=int, default=320_000, help="about what the load itself can do")
    parser.add_argument("--steps", type=int, default=3, help="of bisection")
    parser.add_argument("--trial-seconds", type=float, default=40)
    parser.add_argument("--confirm-seconds", type=float, default=120)
    asked = parser.parse_args()
    found = {}
    with (
        tempfile.TemporaryDirectory(prefix="pid-quota-sustained-") as folder,
        LocalBroker(Path(folder, "kafka")) as broker,
        python_path(),
    ):
        admin = AdminClient(broker.admin_config())
        for name in asked.variants.split(","):
            topic = f"bench-{name}"
            admin.create_topics([NewTopic(topic, kit.PARTITIONS, 1)])[topic].result()
            place = Place(broker, topic, Path(folder, name))
            place.folder.mkdir()
            found[name] = sustained(place, name, asked)
    ratios = {f"{name}/dedup": ratio(found, name, "dedup") for name in found if name != "dedup" and "dedup" in found}
    print(json.dumps(vars(asked) | {"found": found, "ratios": ratios}))


def ratio(found: dict[str, dict[str, Any]], name: str, base: str) -> float | None:
    rate, other = found[name]["events_per_second"], found[base]["events_per_second"]
    return round(rate / other, 3) if other else None


def sustained(place: Place, name: str, asked: argparse.Namespace) -> dict[str, Any]:
    """Search the highest rate of one variant, and confirm it."""
    trigger = f"{round(asked.trigger_seconds * 1000)} milliseconds"
    with (
        Child(name, place.arguments(name, trigger), place.log) as stream,
        Traffic(place, asked.principals, PIDS_EACH, asked.first_rate / 10) as traffic,
    ):
        watched = Watched(place, stream, traffic, asked.trigger_seconds)
        watched.wait_for_start()
        found = highest(
            lambda rate: watched.keeps_up(rate, asked.trial_seconds), asked.first_rate, asked.highest_rate, asked.steps
        )
        # A short trial flatters: what piles up slowly does not show in it.
        rate = found * CONFIRM_STEP
        while rate >= LEAST_RATE and not watched.keeps_up(rate, asked.confirm_seconds):
            rate *= CONFIRM_STEP
        batches = finished_batches(place.checkpoint, place.topic)
    taken = statistics.median(each.end_s - each.begin_s for each in batches)
    print(f"  {name:16} {rate:>10,.0f} events/s, batches of {taken:.2f} s", flush=True)
    confirmed = {"events_per_second": round(rate), "batch_median_s": round(taken, 2), "trials": watched.trials}
    return confirmed | {"load_was_the_limit": found >= asked.highest_rate}


class Watched:
    """A stream under traffic."""

    def __init__(self, place: Place, stream: Child, traffic: Traffic, trigger_s: float) -> None:
        self._place, self._stream, self._traffic, self._trigger_s = place, stream, traffic, trigger_s
        self.trials: list[dict[str, object]] = []

    def wait_for_start(self) -> None:
        """Wait until the stream has finished a few batches."""
        self._wait(lambda: len(finished_batches(self._place.checkpoint, self._place.topic)) >= 3, START_S)

    def keeps_up(self, rate: float, seconds: float) -> bool:
        """Run at a rate for so long, and say whether the stream kept up; then let it catch up if it did not."""
        self._traffic.rate = rate
        lags, written, begin = [0.0], self._traffic.written, time.monotonic()
        while (elapsed_s := time.monotonic() - begin) < seconds and not is_hopeless(lags, self._trigger_s):
            time.sleep(SAMPLE_S)
            self._stream.require_alive()
            lags.append(self._behind() / rate)
        reached = (self._traffic.written - written) / elapsed_s
        kept = elapsed_s >= seconds and reached >= rate * SHORTFALL and is_steady(lags, self._trigger_s)
        lag_s = round(statistics.median(lags[len(lags) // 2 :]), 2)
        self.trials.append({"rate": round(rate), "reached": round(reached), "lag_s": lag_s, "kept_up": kept})
        print(f"    {rate:>10,.0f} events/s for {seconds:.0f} s: {lag_s} s behind", flush=True)
        if not kept:
            self._traffic.rate = 0
            self._wait(lambda: self._behind() == 0, DRAIN_S)
        return kept

    def _behind(self) -> int:
        batches = finished_batches(self._place.checkpoint, self._place.topic)
        return self._traffic.written - batches[-1].end_offset if batches else self._traffic.written

    def _wait(self, holds: Callable[[], bool], limit_s: float) -> None:
        give_up_at = time.monotonic() + limit_s
        while not holds():
            self._stream.require_alive()
            if time.monotonic() > give_up_at:
                log = self._place.log.read_text(encoding="utf-8", errors="replace").strip()[-400:]
                msg = f"the stream did not get there within {limit_s:.0f} s; its log ends so: {log}"
                raise kit.BenchError(msg)
            time.sleep(SAMPLE_S)


def is_steady(lags_s: Sequence[float], trigger_s: float) -> bool:
    """Say whether a stream kept up: how far it is behind stays within bounds and does not grow.

    Args:
        lags_s: Samples in order: the records not read yet, as seconds of traffic.
        trigger_s: The stream's trigger.
    """
    settled = lags_s[int(len(lags_s) * SETTLE_SHARE) :]
    half = len(settled) // 2
    if not half:
        return False
    first, last = statistics.median(settled[:half]), statistics.median(settled[half:])
    return last <= most_lag_s(trigger_s) and last <= first * GROWTH + GROWTH_SLACK_S + trigger_s / 2


def is_hopeless(lags_s: Sequence[float], trigger_s: float) -> bool:
    """Say whether a stream has been too far behind for so long that the rest of a trial would not change it."""
    return len(lags_s) >= HOPELESS_SAMPLES and min(lags_s[-HOPELESS_SAMPLES:]) > most_lag_s(trigger_s)


def most_lag_s(trigger_s: float) -> float:
    """Return how many seconds of traffic a stream may be behind."""
    return LAG_TRIGGERS * trigger_s + LAG_SLACK_S


def highest(keeps_up: Callable[[float], bool], first: float, limit: float, steps: int) -> float:
    """Return about the highest rate that is kept up with, 0 if there is none.

    Args:
        keeps_up: Asked with a rate.
        first: Rate to begin with; halved until one is kept up with, or doubled until one is not.
        limit: No rate above this one is tried.
        steps: Bisections between the last rate that was kept up with and the first that was not.
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
            if rate < LEAST_RATE:
                return 0.0
        good, bad = rate / 2, rate
    for _ in range(steps):
        middle = (good + bad) / 2
        good, bad = (middle, bad) if keeps_up(middle) else (good, middle)
    return good


if __name__ == "__main__":
    main()
