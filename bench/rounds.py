"""Runs variants in turns, and compares them."""

import math
import shutil
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.noise import QUIET, Noise

MIN_ROUNDS = 5
MAX_WARM_UPS = 3
STABLE = 1.05
"""A round is still a warm-up if it is faster than the previous one by more than this factor (median of variants)."""
MORE_ROUNDS = 0.5
"""Maximum number of extra rounds in place of disturbed ones, as a share of the requested rounds."""


@dataclass(frozen=True)
class Run:
    """One query over a load. The first batch, which warms up, and a small remainder at the end don't count.

    Attributes:
        events: Events of the batches that count.
        seconds: Time of these batches.
        state_bytes: State on disk at the end, including old versions that Spark keeps.
        batches: Number of these batches.
        cpu_seconds: CPU time of Spark's JVM and its Python workers.
        state_rows: Rows of the state at the end.
        noise: Other load on the machine during the run.
    """

    events: int
    seconds: float
    state_bytes: int
    batches: int
    cpu_seconds: float = 0.0
    state_rows: int = 0
    noise: Noise = QUIET

    @property
    def rate(self) -> float:
        """Events per second."""
        return self.events / self.seconds


@dataclass(frozen=True, eq=False)
class Round:
    """One run of each variant, in the order of the runs."""

    runs: dict[str, Run]

    @property
    def disturbance(self) -> float:
        """The highest disturbance of its runs. Above 1, the round is disturbed."""
        return max(each.noise.disturbance for each in self.runs.values())


@dataclass(frozen=True)
class Rounds:
    """All rounds of a measurement.

    Attributes:
        warm_ups: Rounds that don't count.
        measured: All other rounds.
        asked: How many of the measured rounds are to count.
    """

    warm_ups: Sequence[Round]
    measured: Sequence[Round]
    asked: int

    @property
    def counted(self) -> list[Round]:
        """The rounds that count: undisturbed ones and, if these are too few, the least disturbed ones."""
        best = sorted(self.measured, key=lambda each: max(each.disturbance, 1.0))[: self.asked]
        return [each for each in self.measured if each in best]

    @property
    def runs(self) -> dict[str, list[Run]]:
        """Each variant's runs in the rounds that count."""
        return {name: [each.runs[name] for each in self.counted] for name in self.warm_ups[0].runs}

    def records(self) -> list[dict[str, Any]]:
        """Return each round's kind, order, rates and noise."""
        kinds = [("warm-up", each) for each in self.warm_ups]
        kinds += [("counted" if each in self.counted else "left out", each) for each in self.measured]
        return [
            {
                "kind": kind,
                "disturbed": each.disturbance > 1,
                "events_per_second": {name: round(run.rate) for name, run in each.runs.items()},
                "noise": {name: asdict(run.noise) for name, run in each.runs.items()},
            }
            for kind, each in kinds
        ]


def interleaved(
    variants: Mapping[str, Callable[[Path], Run]],
    rounds: int,
    folder: Path,
    settle: Callable[[], None] = lambda: None,
) -> Rounds:
    """Run all variants in turns, several times, so that other load on the machine affects all of them alike.

    The first rounds only warm up the JVM, until a round is no faster than the previous one. Each round begins with
    a different variant, and every second round reverses the order, so that no variant always follows the same one. Some
    disturbed rounds are repeated.

    Args:
        variants: Functions by name; each runs in a folder of its own.
        rounds: Rounds that are to count.
        folder: Parent of these folders.
        settle: Called before each run, to collect garbage of other runs.
    """
    done: list[Round] = []
    warm = 0
    most = math.ceil(rounds * (1 + MORE_ROUNDS))
    while warm == 0 or sum(each.disturbance <= 1 for each in done[warm:]) < rounds:
        if warm and len(done) - warm >= most:
            break
        done.append(_round(variants, len(done), folder, settle))
        note = f"disturbed: {done[-1].disturbance:.1f}" if done[-1].disturbance > 1 else "quiet"
        if not warm and len(done) > 1 and (_speed_up(done[-1], done[-2]) <= STABLE or len(done) > MAX_WARM_UPS):
            warm = len(done) - 1
        print(f"  round {len(done)} ({note}{'' if warm else ', warming up'})", flush=True)
    return Rounds(done[:warm], done[warm:], rounds)


def order_of(names: Sequence[str], number: int) -> list[str]:
    """Return the order of the variants in round `number`."""
    begin = number % len(names)
    turned = [*names[begin:], *names[:begin]]
    return turned[::-1] if number % 2 else turned


def _round(
    variants: Mapping[str, Callable[[Path], Run]], number: int, folder: Path, settle: Callable[[], None]
) -> Round:
    runs = {}
    for name in order_of(list(variants), number):
        place = folder / f"{name}-{number}"
        settle()
        runs[name] = found = variants[name](place)
        shutil.rmtree(place, ignore_errors=True)
        noise = f"steal {found.noise.steal:.1%}, others {found.noise.others:.0%}, load {found.noise.load:.1f}"
        print(f"  {name:28} {found.rate:>10,.0f} events/s  {noise}", flush=True)
    return Round(runs)


def _speed_up(now: Round, before: Round) -> float:
    return statistics.median(now.runs[name].rate / before.runs[name].rate for name in now.runs)


def ratios(runs: Mapping[str, Sequence[Run]], name: str, base: str) -> dict[str, float]:
    """Return the ratio of two variants' rates within each round: median, minimum and maximum."""
    return spread(one.rate / other.rate for one, other in zip(runs[name], runs[base], strict=True))


def spread(values: Iterable[float]) -> dict[str, float]:
    """Return the median, minimum and maximum of figures, to four significant digits."""
    found = sorted(values)
    return {
        name: float(f"{value:.4g}")
        for name, value in (("median", statistics.median(found)), ("min", found[0]), ("max", found[-1]))
    }


def summary(rounds: Rounds, bases: Iterable[str]) -> dict[str, Any]:
    """Return each variant's figures, its ratios to the bases, and all rounds."""
    runs = rounds.runs
    variants = {
        name: {
            "events_per_second": spread(each.rate for each in found),
            "cpu_us_per_event": spread(each.cpu_seconds / each.events * 1e6 for each in found),
            "state_bytes": spread(each.state_bytes for each in found),
            "state_rows": found[-1].state_rows,
            "batches": found[-1].batches,
            "rounds": len(found),
        }
        for name, found in runs.items()
    }
    pairs = [(name, base) for base in bases if base in runs for name in runs if name != base]
    return {
        "variants": variants,
        "ratios": {f"{name}/{base}": ratios(runs, name, base) for name, base in pairs},
        "disturbed_rounds": sum(each.disturbance > 1 for each in rounds.counted),
        "rounds": rounds.records(),
    }
