from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from bench import guard, sustained
from bench.loads import BenchError
from bench.processes import Batch
from bench.rounds import Run, ratios


def test_a_ratio_compares_runs_of_the_same_round() -> None:
    # given a machine that is half as fast in the second round
    runs = {
        "job": [Run(200, 1, 0, 3), Run(100, 1, 0, 3)],
        "dedup": [Run(100, 1, 0, 3), Run(50, 1, 0, 3)],
    }

    assert ratios(runs, "job", "dedup") == {"median": 2.0, "min": 2.0, "max": 2.0}


@pytest.mark.parametrize("true_rate", [150.0, 900.0, 1000.0, 7777.0, 63_000.0])
def test_the_search_ends_just_below_what_can_be_kept_up_with(true_rate: float) -> None:
    asked: list[float] = []

    found = sustained.highest(_up_to(true_rate, asked), first=1000, limit=100_000, steps=5)

    assert found <= true_rate < found * 1.04
    assert len(set(asked)) == len(asked)


def test_the_search_tries_nothing_above_what_the_load_can_do() -> None:
    asked: list[float] = []

    assert sustained.highest(_up_to(10**9, asked), first=1000, limit=5000, steps=3) == 5000
    assert max(asked) == 5000


def test_a_stream_that_never_keeps_up_has_the_rate_0() -> None:
    assert sustained.highest(lambda _rate: False, first=1000, limit=5000, steps=3) == 0


def _up_to(true_rate: float, asked: list[float]) -> Callable[[float], bool]:
    def keeps_up(rate: float) -> bool:
        asked.append(rate)
        return rate <= true_rate

    return keeps_up


def trial(lags_s: Sequence[float], interval_s: float = 1.0) -> sustained.Trial:
    """A trial of a 1 s trigger, of samples that see the last two batches each."""
    found = sustained.Trial(trigger_s=1)
    for number, lag_s in enumerate(lags_s):
        found.add(lag_s, [Batch(n, n * interval_s, n * interval_s + 0.5, 0) for n in (number, number + 1)])
    return found


@pytest.mark.parametrize(
    ("lags_s", "kept_up"),
    [
        ([5.0] * 10 + [1.0, 1.5] * 10, True),  # a slow start does not count
        ([second * 0.3 for second in range(40)], False),  # it grows
        ([20.0] * 40, False),  # it stays, but too far behind
        ([1.0], False),  # too few samples to say
    ],
)
def test_a_stream_keeps_up_if_its_lag_is_small_and_does_not_grow(lags_s: list[float], *, kept_up: bool) -> None:
    assert trial(lags_s).is_kept_up_with() is kept_up


@pytest.mark.parametrize(("interval_s", "kept_up"), [(1.0, True), (1.04, True), (1.1, False), (1.7, False)])
def test_a_stream_keeps_up_only_with_a_batch_per_trigger(interval_s: float, *, kept_up: bool) -> None:
    assert trial([1.0] * 40, interval_s).is_kept_up_with() is kept_up


@pytest.mark.parametrize(
    ("lags_s", "hopeless"),
    [
        ([1.0] * 20 + [30.0] * 20, True),
        ([30.0] * 19 + [1.0] + [30.0] * 19, False),  # it has caught up in between
        ([30.0] * 5, False),  # too early to say
    ],
)
def test_a_trial_is_given_up_once_a_stream_has_stayed_too_far_behind(lags_s: list[float], *, hopeless: bool) -> None:
    assert trial(lags_s).is_hopeless(elapsed_s=len(lags_s)) is hopeless


def test_a_trial_is_given_up_once_batches_have_been_too_slow_for_a_minute() -> None:
    slow = trial([1.0] * 70, interval_s=1.5)

    assert not slow.is_hopeless(elapsed_s=30)
    assert slow.is_hopeless(elapsed_s=70)
    assert not trial([1.0] * 70).is_hopeless(elapsed_s=70)


def test_the_guard_fails_only_beyond_its_tolerance() -> None:
    assert guard.TOLERANCE == 0.25
    assert guard.holds(0.31, committed=0.4)
    assert not guard.holds(0.29, committed=0.4)


def test_the_guard_compares_with_the_newest_results_that_have_its_figure(tmp_path: Path) -> None:
    for name, content in (("2026-01-01", "0.3"), ("2026-02-01", "0.4"), ("2026-03-01", "null")):
        (tmp_path / f"{name}.json").write_text(f'{{"guard_vs_dedup": {content}}}')

    assert guard.committed_figure(tmp_path) == 0.4


def test_a_guard_without_results_says_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="--parts guard"):
        guard.committed_figure(tmp_path)
