"""The few numbers that stand for all results, and what they are to be."""

import statistics
from collections.abc import Callable, Iterable
from typing import Any

Parts = dict[str, list[dict[str, Any]]]
"""Runs by part: each with its `command`, and the `result` of its last line."""

PRINCIPALS = 2000
"""Of the load that the headline's ratios belong to."""

FEW = 2000
"""Up to so many principals the ratio to dedup is to be higher."""

TARGETS: dict[str, tuple[str, float]] = {
    "events_per_second": (">=", 1_000_000),
    "bytes_per_event": ("<=", 30),
    "roofline_ratio": (">=", 0.45),
    "vs_dedup": (">=", 1.5),
    "vs_tws": (">=", 1.2),
    "vs_exact_set": (">=", 1.2),
    "flood_state_ratio": ("<=", 0.01),
    "flood_throughput_ratio": (">=", 3.0),
    "latency_p50_s": ("<=", 0.8),
    "latency_p99_s": ("<=", 3.0),
    "sustained_vs_dedup": (">=", 2.0),
    "bloom_overhead": ("<=", 1.6),
    "scaleout_speedup": (">=", 1.6),
}
"""By top-level number: how it is compared with its target. Those without a target only inform."""

MEANINGS = {
    "events_per_second": "of the whole job, 2,000 principals",
    "bytes_per_event": "of its records, uncompressed (target: at 20 events a record)",
    "roofline_ratio": "the whole job's rate as a share of the bare Kafka source's, read as the job reads it",
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
    "vs_default_source": "the job's rate as a multiple of a bare source's that nobody has tuned",
    "guard_vs_dedup": "what `make bench-guard` compares with: the median of its runs",
}


def headline(parts: Parts) -> dict[str, float | None]:
    """Return the top-level numbers; None where a part has not been run."""
    load = main_load(parts)
    ratios = {name: found["median"] for name, found in load.get("ratios", {}).items()}
    flood = next(iter(loads(parts, "flood")), {})
    latencies = [
        each for each in results(parts, "latency") if each["sink"] == "deltalake" and each["principals"] == 200
    ]
    sustained = [each["ratios"].get("job/dedup") for each in results(parts, "sustained")]
    return {
        "events_per_second": load["variants"]["job"]["events_per_second"]["median"] if load else None,
        "bytes_per_event": load.get("bytes_per_event"),
        "roofline_ratio": ratios.get("job/source"),
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
        "vs_default_source": _default_source(parts),
        "guard_vs_dedup": _guard(parts),
    }


def main_load(parts: Parts) -> dict[str, Any]:
    """Return the load that the headline's ratios belong to; empty if it was not measured."""
    found = [
        each for each in loads(parts, "throughput") if each["principals"] == PRINCIPALS and "job" in each["variants"]
    ]
    return max(found, key=lambda each: (each.get("version", 1), "job/dedup" in each["ratios"]), default={})


def _default_source(parts: Parts) -> float | None:
    found = [
        each["ratios"].get("job/source-default")
        for each in loads(parts, "throughput")
        if each["principals"] == PRINCIPALS
    ]
    return next((each["median"] for each in found if each), None)


def _guard(parts: Parts) -> float | None:
    medians = [each["guard_vs_dedup"]["median"] for each in results(parts, "guard") if "guard_vs_dedup" in each]
    return float(f"{statistics.median(medians):.4g}") if medians else None


def target_of(base: str, principals: int) -> float | None:
    """Return how many times as fast as a base the job is to be at some number of principals."""
    if base == "dedup":
        return 1.5 if principals <= FEW else 1.2
    return {"source": 0.45, "set": 1.2, "tws": 1.2}.get(base)


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
