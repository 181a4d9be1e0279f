"""The headline: the most important numbers of all results, and their targets."""

import statistics
from collections.abc import Callable, Iterable
from typing import Any

Parts = dict[str, list[dict[str, Any]]]
"""Runs by part. Each run has its `command`, and the `result` from its last line."""
PRINCIPALS = 2000
"""Principals in the load of the headline's ratios. Up to this number, the target against dedup is higher."""

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
"""Comparison and target by name of a number. Numbers without a target are only shown."""

MEANINGS = {
    "events_per_second": "rate of the whole job, 2,000 principals",
    "bytes_per_event": "bytes of its records, uncompressed, at 20 events a record",
    "vs_dedup": "times the rate of `dropDuplicatesWithinWatermark`",
    "vs_tws": "times the rate of our ledgers in `transformWithStateInPandas`",
    "vs_exact_set": "times the rate of an exact Python set per principal",
    "flood_state_ratio": "state under a flood of PIDs, as a share of dedup's",
    "flood_throughput_ratio": "times dedup's rate under that flood",
    "latency_p50_s": "seconds from a produce to its decision in Delta, median (worst rate, 200 principals)",
    "latency_p99_s": "99th percentile",
    "sustained_vs_dedup": "times dedup's steady rate (least of the settings)",
    "bloom_overhead": "bytes of filters per byte of one optimal Bloom filter (worst quota from 100 on)",
    "lookup_ns": "nanoseconds for an event whose PID is known",
    "admit_ns": "nanoseconds for an event whose PID is admitted",
    "scaleout_speedup": "times as fast with two single-core workers as with one",
}
"""The numbers that the page shows."""


def headline(parts: Parts) -> dict[str, float | None]:
    """Return the headline's numbers; None for each that was not measured."""
    of_main = [each for each in loads(parts, "throughput") if each["principals"] == PRINCIPALS]
    main = next((each for each in of_main if each["version"] > 1 and "dedup" in each["variants"]), {})
    ratios = {name: found["median"] for name, found in main.get("ratios", {}).items()}
    default = (each["ratios"].get("job/source-default") for each in of_main)
    flood = next(iter(loads(parts, "flood")), {})
    latencies = [
        each for each in results(parts, "latency") if each["sink"] == "deltalake" and each["principals"] == 200
    ]
    guards = [each["guard_vs_dedup"]["median"] for each in results(parts, "guard")]
    return {
        "events_per_second": main["variants"]["job"]["events_per_second"]["median"] if main else None,
        "bytes_per_event": main.get("bytes_per_event"),
        "roofline_ratio": ratios.get("job/source"),
        "vs_dedup": ratios.get("job/dedup"),
        "vs_tws": ratios.get("job/tws"),
        "vs_exact_set": ratios.get("job/set"),
        "flood_state_ratio": flood_state_ratio(flood) if flood else None,
        "flood_throughput_ratio": flood["ratios"]["job/dedup"]["median"] if flood else None,
        "latency_p50_s": _worst(max, (each["p50_s"] for each in latencies)),
        "latency_p99_s": _worst(max, (each["p99_s"] for each in latencies)),
        "sustained_vs_dedup": _worst(min, (each["ratios"].get("job/dedup") for each in results(parts, "sustained"))),
        "bloom_overhead": _first(parts, "state", "bloom_overhead"),
        "lookup_ns": _first(parts, "core", "lookup_ns"),
        "admit_ns": _first(parts, "core", "admit_ns"),
        "scaleout_speedup": (_first(parts, "scaleout", "speedup") or {}).get("median"),
        "vs_default_source": next((each["median"] for each in default if each), None),
        "guard_vs_dedup": float(f"{statistics.median(guards):.4g}") if guards else None,
    }


def target_of(base: str, principals: int) -> float | None:
    """Return the target for the job's rate as a multiple of a base's; None if there is no target."""
    if base == "dedup":
        return 1.5 if principals <= PRINCIPALS else 1.2
    return {"set": 1.2, "tws": 1.2}.get(base)


def results(parts: Parts, name: str) -> list[dict[str, Any]]:
    """Return the results of a part's runs."""
    return [run["result"] for run in parts.get(name, [])]


def loads(parts: Parts, name: str) -> list[dict[str, Any]]:
    """Return the results of `bench/throughput.py` for each load, fewest principals first."""
    return sorted(
        (load for result in results(parts, name) for load in result["loads"]), key=lambda load: load["principals"]
    )


def flood_state_ratio(load: dict[str, Any]) -> float:
    """Return the job's state as a share of dedup's."""
    ours, theirs = (load["variants"][name]["state_bytes"]["median"] for name in ("job", "dedup"))
    return float(f"{ours / theirs:.3g}")


def meets(name: str, value: float | None) -> bool | None:
    """Return whether a number reaches its target; None without a target or a measurement."""
    if value is None or name not in TARGETS:
        return None
    how, target = TARGETS[name]
    return value >= target if how == ">=" else value <= target


def _worst(choose: Callable[[list[float]], float], values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return choose(known) if known else None


def _first(parts: Parts, name: str, figure: str) -> Any:
    return next((result[figure] for result in results(parts, name)), None)
