"""The few numbers that stand for all results, and what they are to be."""

from collections.abc import Callable, Iterable
from typing import Any

Parts = dict[str, list[dict[str, Any]]]
"""Runs by part: each with its `command`, and the `result` of its last line."""

PRINCIPALS = 2000
"""Of the load that the headline's ratios belong to."""

TARGETS: dict[str, tuple[str, float]] = {
    "roofline_ratio": (">=", 0.4),
    "vs_dedup": (">", 1.0),
    "vs_tws": (">", 1.0),
    "vs_exact_set": (">", 1.0),
    "flood_state_ratio": ("<=", 0.01),
    "flood_throughput_ratio": (">=", 3.0),
    "latency_p50_s": ("<=", 1.5),
    "latency_p99_s": ("<=", 3.0),
    "sustained_vs_dedup": (">=", 2.0),
    "bloom_overhead": ("<=", 1.6),
    "scaleout_speedup": (">=", 1.6),
}
"""By top-level number: how it is compared with its target. Those without a target only inform."""

MEANINGS = {
    "roofline_ratio": "the whole job's rate as a share of the bare Kafka source's",
    "roofline_ratio_tuned": "the same of a bare source that reads with the job's settings, which is faster",
    "vs_dedup": "times as fast as `dropDuplicatesWithinWatermark`",
    "vs_tws": "times as fast as our ledgers in `transformWithStateInPandas`",
    "vs_exact_set": "times as fast as an exact Python set per principal",
    "flood_state_ratio": "state under a flood of PIDs, as a share of `dropDuplicatesWithinWatermark`'s",
    "flood_throughput_ratio": "times as fast as `dropDuplicatesWithinWatermark` under that flood",
    "latency_p50_s": "seconds from a produce to its decision in Delta, median (worst of the rates, 200 principals)",
    "latency_p99_s": "the same, 99th percentile",
    "sustained_vs_dedup": "times the steady rate of `dropDuplicatesWithinWatermark` (least of the settings)",
    "bloom_overhead": "bytes of filters per byte that one Bloom filter would need (worst of quotas from 100 on)",
    "lookup_ns": "nanoseconds for an event whose PID is known",
    "admit_ns": "nanoseconds for an event whose PID is admitted",
    "scaleout_speedup": "times as fast with two single-core workers as with one",
    "guard_roofline_ratio": "what `make bench-guard` compares with",
}


def headline(parts: Parts) -> dict[str, float | None]:
    """Return the top-level numbers; None where a part has not been run."""
    load = next((each for each in loads(parts, "throughput") if each["principals"] == PRINCIPALS), {})
    ratios = {name: found["median"] for name, found in load.get("ratios", {}).items()}
    flood = next(iter(loads(parts, "flood")), {})
    latencies = [
        each for each in results(parts, "latency") if each["sink"] == "deltalake" and each["principals"] == 200
    ]
    sustained = [each["ratios"].get("job/dedup") for each in results(parts, "sustained")]
    return {
        "roofline_ratio": ratios.get("job/source"),
        "roofline_ratio_tuned": ratios.get("job/source-tuned"),
        "vs_dedup": ratios.get("job/dedup"),
        "vs_tws": ratios.get("job/tws"),
        "vs_exact_set": ratios.get("job/set"),
        "flood_state_ratio": flood_state_ratio(flood),
        "flood_throughput_ratio": flood["ratios"]["job/dedup"]["median"] if flood else None,
        "latency_p50_s": _worst(max, (each["p50_s"] for each in latencies)),
        "latency_p99_s": _worst(max, (each["p99_s"] for each in latencies)),
        "sustained_vs_dedup": _worst(min, sustained),
        "bloom_overhead": _first(parts, "state", "bloom_overhead"),
        "lookup_ns": _first(parts, "core", "lookup_ns"),
        "admit_ns": _first(parts, "core", "admit_ns"),
        "scaleout_speedup": (_first(parts, "scaleout", "speedup") or {}).get("median"),
        "guard_roofline_ratio": (_first(parts, "guard", "guard_roofline_ratio") or {}).get("median"),
    }


def results(parts: Parts, name: str) -> list[dict[str, Any]]:
    """Return what the runs of a part found."""
    return [run["result"] for run in parts.get(name, [])]


def loads(parts: Parts, name: str) -> list[dict[str, Any]]:
    """Return what `bench/throughput.py` found for each load, fewest principals first."""
    return sorted(
        (load for result in results(parts, name) for load in result["loads"]), key=lambda load: load["principals"]
    )


def flood_state_ratio(load: dict[str, Any]) -> float | None:
    """Return the job's state as a share of the dedup's, of one load."""
    if not load:
        return None
    ours, theirs = (load["variants"][name]["state_bytes"]["median"] for name in ("job", "dedup"))
    return float(f"{ours / theirs:.3g}")


def meets(name: str, value: float | None) -> bool | None:
    """Say whether a top-level number reaches its target; None if it has none or was not measured."""
    if value is None or name not in TARGETS:
        return None
    how, target = TARGETS[name]
    return {">=": value >= target, ">": value > target, "<=": value <= target}[how]


def _worst(choose: Callable[[list[float]], float], values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return choose(known) if known else None


def _first(parts: Parts, name: str, figure: str) -> Any:
    return next((result[figure] for result in results(parts, name)), None)
