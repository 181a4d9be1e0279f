"""Benchmark results in the format of `bench/report.py`, each figure distinct."""

from typing import Any


def spread(median: float, least: float | None = None, most: float | None = None) -> dict[str, float]:
    return {"median": median, "min": median if least is None else least, "max": median if most is None else most}


def variant(rate: float, state_bytes: float = 1024) -> dict[str, Any]:
    return {
        "events_per_second": spread(rate, rate - 10, rate + 10),
        "cpu_us_per_event": spread(1.5),
        "state_bytes": spread(state_bytes),
        "state_rows": 1,
        "batches": 3,
        "rounds": 3,
    }


def load(principals: int, flood_pids: int = 0, *, per_record: float = 20.5, faster: float = 0.0) -> dict[str, Any]:
    return {
        "events": 1_000_000,
        "principals": principals,
        "flood_pids": flood_pids,
        "batch": 250_000,
        "events_per_record": per_record,
        "bytes_per_event": 18.1,
        "disturbed_rounds": 1,
        "variants": {"job": variant(4000, 2000), "dedup": variant(2000, 100_000)},
        "ratios": {
            "job/source": spread(0.42, 0.4, 0.45),
            "job/source-default": spread(0.33, 0.3, 0.35),
            "job/dedup": spread(2.0 + flood_pids + faster),
            "job/tws": spread(3.0 + faster, 2.9, 3.2),
            "job/set": spread(0.9 + faster),
        },
    }


def run(**result: Any) -> list[dict[str, Any]]:
    return [{"command": "bench/some.py --asked", "date": "2026-01-01", "took_s": 1, "result": result}]


def latency(rate: int, principals: int, sink: str, p50_s: float, p99_s: float) -> list[dict[str, Any]]:
    part = {"p50_s": round(p50_s / 2 + rate / 100_000, 2), "p99_s": p99_s / 2, "max_s": p99_s}
    of_run = {"rate": rate, "principals": principals, "sink": sink, "behind": 10}
    return run(**of_run, p50_s=p50_s, p99_s=p99_s, max_s=p99_s, wait_s=part, batch_s=part, read_s=part)


def hold(trigger: str, p50_s: float, p99_s: float) -> list[dict[str, Any]]:
    whole = {"n": 30, "p50_s": p50_s, "p99_s": p99_s, "max_s": p99_s}
    soon = {name: value / 2 if isinstance(value, float) else value for name, value in whole.items()}
    return run(trigger=trigger, found={"over quota -> hold": whole, "record -> hold": soon})


def on_a_broker(rate: float, p99: float, cpu: float) -> dict[str, Any]:
    on: dict[str, Any] = {}
    for name, ratio in (("records_per_second", rate), ("p99_ms", p99), ("broker_cpu_us_per_record", cpu)):
        on |= {name: 100.0, f"{name}_ratio": ratio, f"{name}_spread": [ratio - 0.1, ratio + 0.1]}
    return {"on": on}


def broker(few: tuple[float, float, float], many: tuple[float, float, float]) -> list[dict[str, Any]]:
    """Ratios of rate, p99 and CPU, of each of two loads."""
    results = {"few producers": on_a_broker(*few), "many producers": on_a_broker(*many)}
    return run(cores=2, results=results, heap={"pids": 1_000_000, "off_mb": 330.5, "on_mb": 362.0, "plugin_mb": 31.5})


def sustained(trigger_s: float, ratio: float | None) -> list[dict[str, Any]]:
    found = {"events_per_second": 20_000, "batch_median_s": 0.8, "trials": [], "load_was_the_limit": False}
    asked = {"trigger_seconds": trigger_s, "principals": 200, "confirm_seconds": 300}
    return run(**asked, found={"job": found, "dedup": found}, ratios={"job/dedup": ratio})


def every_part() -> dict[str, list[dict[str, Any]]]:
    filters = {"ledger_bytes": 2000, "filter_bytes": 600, "active_pids": 150, "optimum_bytes": 400}
    overheads = {"filter_overhead": 1.5}
    of_core = ("lookup_ns", "lookup_theirs_ns", "lookup_ratio", "admit_ns", "admit_theirs_ns", "admit_ratio")
    return {
        "throughput": run(
            loads=[load(2000, per_record=1.0, faster=7), load(2000), load(20, faster=1), load(20_000, faster=2)]
        ),
        "flood": run(loads=[load(20, flood_pids=1)]),
        "latency": latency(5000, 200, "deltalake", 1.2, 2.5)
        + latency(20_000, 200, "deltalake", 1.1, 3.5)
        + latency(5000, 2000, "deltalake", 9.0, 9.0)
        + latency(5000, 200, "delta-spark", 8.0, 8.0),
        "hold": hold("1 second", 0.91, 1.41) + hold("asap", 0.51, 0.61),
        "idle": run(
            trigger="1 second",
            rate=200,
            cpu_cores=0.25,
            cpu_s_per_batch=0.26,
            batches_per_second=1.0,
            rss_mb=815,
            driver_rss_mb=130,
        ),
        "principals": run(known_us=spread(18.5), other_us=spread(48.5)),
        "broker": broker((0.97, 1.02, 1.01), (0.99, 1.01, 1.04)),
        "sustained": sustained(1, 2.5) + sustained(5, 2.1) + sustained(5, None),
        "state": run(
            bloom_overhead=1.5,
            filters={"100": filters | overheads},
        ),
        "core": run(
            lookup_ns=250.0, admit_ns=9000.0, cases={"100_pids_4_layers": {name: spread(7) for name in of_core}}
        ),
        "scaleout": run(
            speedup=spread(1.7, 1.6, 1.8),
            events_per_second={"1 worker": spread(10), "2 workers": spread(17)},
            used={"1 worker": {"workers": spread(3.5), "driver": spread(0.5), "cores": spread(1.2)}},
        ),
        "guard": run(guard_vs_dedup=spread(1.3)) + run(guard_vs_dedup=spread(1.2)) + run(guard_vs_dedup=spread(1.5)),
    }
