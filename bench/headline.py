"""The headline: the most important numbers of all results, and their targets."""

import statistics
from collections.abc import Callable, Iterable
from typing import Any

Parts = dict[str, list[dict[str, Any]]]
"""Runs by part. Each run has its `command`, and the `result` from its output's last line."""
PRINCIPALS = 2000
"""Principals in the load of the headline's ratios. Up to this number, the target against dedup is higher."""
CONSTANT_RATE = 5_000
"""Events per second that add little to a batch's fixed time."""
IN_FORCE = "over quota -> hold"

TARGETS: dict[str, tuple[str, float]] = {
    "hold_p50_s": ("<=", 0.9),
    "hold_p99_s": ("<=", 1.4),
    "hold_asap_p50_s": ("<=", 0.6),
    "hold_asap_p99_s": ("<=", 1.0),
    "batch_constant_s": ("<=", 0.3),
    "idle_cpu_cores": ("<=", 0.08),
    "stream_rss_mb": ("<=", 1000),
    "broker_rate_ratio": (">=", 0.98),
    "broker_p99_ratio": ("<=", 1.03),
    "broker_cpu_ratio": ("<=", 1.03),
    "events_per_second": (">=", 1_000_000),
    "bytes_per_event": ("<=", 30),
    "vs_dedup": (">=", 1.5),
    "vs_tws": (">=", 1.2),
    "vs_exact_set": (">=", 1.2),
    "vs_dedup_20000": (">=", 1.0),
    "vs_exact_set_20": (">=", 1.2),
    "vs_tws_20": (">=", 1.2),
    "flood_state_ratio": ("<=", 0.01),
    "flood_throughput_ratio": (">=", 3.0),
    "latency_p50_s": ("<=", 0.8),
    "latency_p99_s": ("<=", 3.0),
    "sustained_vs_dedup": (">=", 2.0),
    "bloom_overhead": ("<=", 1.6),
    "principal_known_us": ("<=", 15),
    "principal_other_us": ("<=", 60),
    "scaleout_speedup": (">=", 1.6),
}
"""Comparison and target by name of a number. Numbers without a target are only shown."""

MEANINGS = {
    "hold_p50_s": "seconds from the request over the quota until the hold is in force, at a 1 s trigger, median",
    "hold_p99_s": "99th percentile",
    "hold_asap_p50_s": "the same if batches follow each other without a pause (`--trigger asap`), median",
    "hold_asap_p99_s": "99th percentile",
    "batch_constant_s": "seconds from the start of a batch to its commit, at 5,000 events/s",
    "idle_cpu_cores": "cores that a stream takes at 200 events/s and a 1 s trigger",
    "stream_rss_mb": "memory of the JVM and Python workers of that stream, in MB",
    "broker_rate_ratio": "rate of a broker with the plugin, as a share of one without (worst load)",
    "broker_p99_ratio": "99th percentile of produce latency, relative to a broker without the plugin (worst load)",
    "broker_cpu_ratio": "CPU per record, relative to a broker without the plugin (worst load)",
    "broker_heap_mb": "heap of a broker at a million PIDs, in MB more than without the plugin",
    "events_per_second": "rate of the whole job, 2,000 principals",
    "bytes_per_event": "bytes of an event in a record of 20 events, uncompressed",
    "vs_dedup": "times the rate of `dropDuplicatesWithinWatermark`",
    "vs_tws": "times the rate of our ledgers in `transformWithStateInPandas`",
    "vs_exact_set": "times the rate of an exact Python set per principal",
    "vs_dedup_20000": "times dedup's rate with 20,000 principals",
    "vs_exact_set_20": "times the set's rate with 20 principals",
    "vs_tws_20": "times `transformWithStateInPandas`'s rate with 20 principals",
    "flood_state_ratio": "state under a flood of PIDs, as a share of dedup's",
    "flood_throughput_ratio": "times dedup's rate under the same flood",
    "latency_p50_s": "seconds from a produce request to its decision in Delta, median (worst rate, 200 principals)",
    "latency_p99_s": "99th percentile",
    "sustained_vs_dedup": "times dedup's highest steady rate (lowest ratio of all settings)",
    "bloom_overhead": "bytes of filters per byte of one optimal Bloom filter (worst quota from 100 on)",
    "principal_known_us": "microseconds of CPU for a principal in a batch, if all its PIDs are known",
    "principal_other_us": "microseconds of CPU for any other principal in a batch",
    "lookup_ns": "nanoseconds for an event whose PID is known",
    "admit_ns": "nanoseconds for an event whose PID is admitted",
    "scaleout_speedup": "times as fast with two single-core workers as with one",
}
"""The numbers that the page shows."""

WHY_MISSED = {
    "hold_asap_p99_s": "the slowest of 30 trials; broker, stream and clients share two cores",
    "batch_constant_s": "Spark plans each batch, generates its code and starts its tasks",
    "idle_cpu_cores": "Spark does this fixed work once a second",
    "broker_rate_ratio": "the plugin examines each request; brokers without it differ more from each other",
    "broker_p99_ratio": "the plugin examines each request; brokers without it differ more from each other",
    "broker_cpu_ratio": "the plugin examines each request; brokers without it differ more from each other",
    "vs_dedup_20000": "each principal has a ledger, which Python updates",
    "vs_exact_set_20": "source and pre-aggregation, the same for both, take most of a batch",
    "vs_tws_20": "source and pre-aggregation, the same for both, take most of a batch",
    "flood_throughput_ratio": "a batch has a fixed time, and the quota rules take a small part of it",
    "latency_p50_s": "more than half of it is the wait for the trigger",
    "sustained_vs_dedup": "the load reached its limit before the job did",
    "principal_known_us": "decoding events and ledger takes almost half",
    "scaleout_speedup": "both share the driver and the source",
}
"""Reasons for missed targets, by name."""


def headline(parts: Parts) -> dict[str, float | None]:
    """Return the headline's numbers; None for each that was not measured."""
    guards = [each["guard_vs_dedup"]["median"] for each in results(parts, "guard")]
    return {
        **_felt(parts),
        **_of_peers(parts),
        "sustained_vs_dedup": _worst(min, (each["ratios"].get("job/dedup") for each in results(parts, "sustained"))),
        "bloom_overhead": _first(parts, "state", "bloom_overhead"),
        "principal_known_us": (_first(parts, "principals", "known_us") or {}).get("median"),
        "principal_other_us": (_first(parts, "principals", "other_us") or {}).get("median"),
        "lookup_ns": _first(parts, "core", "lookup_ns"),
        "admit_ns": _first(parts, "core", "admit_ns"),
        "scaleout_speedup": (_first(parts, "scaleout", "speedup") or {}).get("median"),
        "guard_vs_dedup": float(f"{statistics.median(guards):.4g}") if guards else None,
    }


def _felt(parts: Parts) -> dict[str, float | None]:
    """Return the numbers that users and operators of brokers notice."""
    holds = {each["trigger"]: each["found"][IN_FORCE] for each in results(parts, "hold")}
    every_second, asap = holds.get("1 second", {}), holds.get("asap", {})
    of_default = [
        each for each in results(parts, "latency") if each["sink"] == "deltalake" and each["principals"] == 200
    ]
    batches = [each["batch_s"]["p50_s"] for each in of_default if each["rate"] == CONSTANT_RATE]
    broker = [found["on"] for each in results(parts, "broker") for found in each["results"].values()]
    return {
        "hold_p50_s": every_second.get("p50_s"),
        "hold_p99_s": every_second.get("p99_s"),
        "hold_asap_p50_s": asap.get("p50_s"),
        "hold_asap_p99_s": asap.get("p99_s"),
        "batch_constant_s": _worst(max, batches),
        "idle_cpu_cores": _first(parts, "idle", "cpu_cores"),
        "stream_rss_mb": _first(parts, "idle", "rss_mb"),
        "broker_rate_ratio": _worst(min, (each["records_per_second_ratio"] for each in broker)),
        "broker_p99_ratio": _worst(max, (each["p99_ms_ratio"] for each in broker)),
        "broker_cpu_ratio": _worst(max, (each["broker_cpu_us_per_record_ratio"] for each in broker)),
        "broker_heap_mb": _worst(
            max, (each["heap"]["plugin_mb"] for each in results(parts, "broker") if "heap" in each)
        ),
        "latency_p50_s": _worst(max, (each["p50_s"] for each in of_default)),
        "latency_p99_s": _worst(max, (each["p99_s"] for each in of_default)),
    }


def _of_peers(parts: Parts) -> dict[str, float | None]:
    """Return the job's rate, and comparisons with its peers."""
    many = [
        each for each in loads(parts, "throughput") if each["events_per_record"] > 1 and "job/dedup" in each["ratios"]
    ]
    by_principals = {each["principals"]: each for each in many}
    flood = next(iter(loads(parts, "flood")), {})

    def ratio(principals: int, base: str) -> float | None:
        return _value(by_principals.get(principals, {}), "ratios", f"job/{base}", "median")

    return {
        "events_per_second": _value(
            by_principals.get(PRINCIPALS, {}), "variants", "job", "events_per_second", "median"
        ),
        "bytes_per_event": _value(by_principals.get(PRINCIPALS, {}), "bytes_per_event"),
        "vs_dedup": ratio(PRINCIPALS, "dedup"),
        "vs_tws": ratio(PRINCIPALS, "tws"),
        "vs_exact_set": ratio(PRINCIPALS, "set"),
        "vs_dedup_20000": ratio(20_000, "dedup"),
        "vs_exact_set_20": ratio(20, "set"),
        "vs_tws_20": ratio(20, "tws"),
        "flood_state_ratio": flood_state_ratio(flood) if flood else None,
        "flood_throughput_ratio": _value(flood, "ratios", "job/dedup", "median"),
    }


def target_of(base: str, principals: int) -> float | None:
    """Return the target for the job's rate divided by the rate of the peer `base`; None without a target."""
    if base == "dedup":
        return 1.5 if principals <= PRINCIPALS else 1.0
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
    """Return the size of the job's state as a share of dedup's."""
    ours, theirs = (load["variants"][name]["state_bytes"]["median"] for name in ("job", "dedup"))
    return float(f"{ours / theirs:.3g}")


def meets(name: str, value: float | None) -> bool | None:
    """Return whether a number reaches its target; None without a target or a measurement."""
    if value is None or name not in TARGETS:
        return None
    how, target = TARGETS[name]
    return value >= target if how == ">=" else value <= target


def _value(found: Any, *names: str) -> float | None:
    """Return the number at a path of names; None if a name is missing."""
    for name in names:
        found = found.get(name) if found else None
    return None if found is None else float(found)


def _worst(choose: Callable[[list[float]], float], values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return choose(known) if known else None


def _first(parts: Parts, name: str, figure: str) -> Any:
    return next((result[figure] for result in results(parts, name)), None)
