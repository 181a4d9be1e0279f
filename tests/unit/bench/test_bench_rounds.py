"""Rounds of a benchmark: their order, which of them count, and disturbed ones."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from bench.noise import Noise
from bench.rounds import Run, interleaved, order_of, summary

STOLEN = Noise(steal=0.5)


def runs(rates: Sequence[float], noises: Sequence[Noise] = ()) -> Callable[[Path], Run]:
    """A variant that runs at some rates one after another, the last for ever."""
    found: Iterator[int] = iter(range(1000))

    def run(_folder: Path) -> Run:
        number = next(found)
        noise = noises[number] if number < len(noises) else Noise()
        return Run(round(rates[min(number, len(rates) - 1)]), 1, 0, 3, cpu_seconds=1, noise=noise)

    return run


def test_every_variant_begins_a_round_and_none_always_follows_the_same() -> None:
    orders = [order_of(["a", "b", "c"], number) for number in range(6)]

    assert {order[0] for order in orders} == {"a", "b", "c"}
    assert {order[order.index("b") - 1] for order in orders if order[0] != "b"} == {"a", "c"}


def test_rounds_that_get_faster_are_warm_ups(tmp_path: Path) -> None:
    found = interleaved({"job": runs([100, 200, 300, 303])}, 3, tmp_path)

    assert [each.runs["job"].rate for each in found.warm_ups] == [100, 200, 300]
    assert [each.rate for each in found.runs["job"]] == [303, 303, 303]


def test_warm_ups_are_bounded(tmp_path: Path) -> None:
    found = interleaved({"job": runs([2**number for number in range(20)])}, 2, tmp_path)

    assert [len(found.warm_ups), len(found.counted)] == [3, 2]


def test_disturbed_rounds_are_repeated(tmp_path: Path) -> None:
    # given a second counted round in which the hypervisor took half of the time
    noises = [Noise(), Noise(), STOLEN]
    found = interleaved({"job": runs([100, 100, 20, 100], noises)}, 4, tmp_path)

    assert [each.rate for each in found.runs["job"]] == [100] * 4
    assert [each["kind"] for each in found.records()] == ["warm-up", "counted", "left out", *["counted"] * 3]
    assert summary(found, ())["disturbed_rounds"] == 0


def test_if_all_rounds_are_disturbed_they_count_and_are_reported(tmp_path: Path) -> None:
    found = interleaved({"job": runs([100], [STOLEN] * 100)}, 4, tmp_path)

    assert len(found.measured) == 6
    assert len(found.runs["job"]) == summary(found, ())["disturbed_rounds"] == 4


def test_a_summary_has_no_ratio_of_a_variant_to_itself(tmp_path: Path) -> None:
    found = interleaved({name: runs([100]) for name in ("set", "job", "dedup")}, 1, tmp_path)

    assert list(summary(found, ("dedup", "set"))["ratios"]) == ["set/dedup", "job/dedup", "job/set", "dedup/set"]


@pytest.mark.parametrize(
    ("noise", "disturbed"), [(Noise(0.01, 0.09), False), (Noise(0.03), True), (Noise(0, 0.2), True)]
)
def test_a_round_is_disturbed_by_other_load(noise: Noise, *, disturbed: bool) -> None:
    assert (noise.disturbance > 1) is disturbed
