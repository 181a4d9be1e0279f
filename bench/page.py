"""`docs/performance.md` as it follows from the results: tables with targets, medians and spread, and the commands."""

from collections.abc import Iterable, Sequence
from typing import Any

from headline import MEANINGS, TARGETS, Parts, loads, meets, results, target_of

NOT_MEASURED = "not measured"
_INTRODUCTION = """# Performance

Made by `make bench-full` from [`bench/results/{source}`](../bench/results/{source}); do not edit.
Ratios compare variants of one run that took turns, on the same records and the same machine; ranges are least to most
of the rounds. Everything ran on one machine: broker, load, driver and workers share its cores. The bare source reads as
the job does; one with Spark's own settings is called `source-default`.
[Why it is as fast as it is](performance-notes.md): where the time goes, which settings change it, what was tried.
"""


def page(result: dict[str, Any], source: str, plots: Sequence[str] = ()) -> str:
    """Return the page.

    Args:
        result: What `bench/report.py` keeps.
        source: Name of its file.
        plots: Names of the plots that were drawn, without `perf-` and `.svg`.
    """
    parts: Parts = result["parts"]
    sections = [
        _INTRODUCTION.format(source=source),
        _table(["", ""], [[name.replace("_", " "), value] for name, value in result["machine"].items()]),
        "## At a glance\n",
        _headline(result),
    ]
    for name, (title, body) in _SECTIONS.items():
        runs = parts.get(name, [])
        if not runs:
            continue
        commands = "\n".join(f"    .venv/bin/python {run['command']}" for run in runs)
        days = ", ".join(sorted({run["date"] for run in runs}))
        minutes = sum(run["took_s"] for run in runs) / 60
        sections += [f"## {title}\n", commands + "\n", f"Measured on {days}, in {minutes:.0f} min.\n", *body(parts)]
        if name in plots:
            sections.append(f"![{title}](img/perf-{name}.svg)\n")
    return "\n".join(sections)


def _headline(result: dict[str, Any]) -> str:
    rows = []
    for name, meaning in MEANINGS.items():
        value, target = result[name], " ".join(map(str, TARGETS.get(name, ("", ""))))
        verdict = {True: "yes", False: "**no**", None: ""}[meets(name, value)]
        rows.append([f"`{name}`", meaning, NOT_MEASURED if value is None else value, target.strip(), verdict])
    return _table(["number", "what it is", "measured", "target", "met"], rows)


def _throughput(parts: Parts) -> Iterable[str]:
    for load in loads(parts, "throughput"):
        yield _load(load)
        heads = ["variant", "events/s", "of the source's rate", "of dedup's"]
        rows = [
            [
                name,
                _spread(found["events_per_second"], "{:,.0f}"),
                *(_spread(load["ratios"].get(f"{name}/{base}"), "{:.2f}") for base in ("source", "dedup")),
                _spread(found["cpu_us_per_event"], "{:.1f}"),
                f"{found['state_bytes']['median'] / 1024:,.0f}",
            ]
            for name, found in load["variants"].items()
        ]
        yield _table([*heads, "CPU us/event", "state KiB"], rows)
        if job := _against(load):
            yield _table(["the job against", "times as fast", "by CPU time", "target", "met"], job)


def _against(load: dict[str, Any]) -> Iterable[Sequence[object]]:
    rows = []
    for name, ratio in load["ratios"].items():
        variant, base = name.split("/")
        if variant == "job":
            target = target_of(base, load["principals"])
            verdict = "" if target is None else "yes" if ratio["median"] >= target else "**no**"
            of_cpu = _spread(load.get("cpu_ratios", {}).get(name), "{:.2f}")
            rows.append([base, _spread(ratio, "{:.2f}"), of_cpu, "" if target is None else f">= {target}", verdict])
    return rows


def _flood(parts: Parts) -> Iterable[str]:
    for load in loads(parts, "flood"):
        yield _load(load)
        rows = [
            [
                name,
                _spread(found["events_per_second"], "{:,.0f}"),
                _spread(found["state_bytes"], "{:,.0f}"),
                f"{found['state_rows']:,}",
            ]
            for name, found in load["variants"].items()
        ]
        yield _table(["variant", "events/s", "state bytes on disk, kept versions included", "rows of state"], rows)
        rate = _spread(load["ratios"]["job/dedup"], "{:.2f}")
        yield f"The job runs at {rate} times dedup's rate (target: 3); its state is to be at most 1/100 of dedup's.\n"


def _load(load: dict[str, Any]) -> str:
    flood = f", {load['flood_pids']:,} PIDs of one principal more" if load["flood_pids"] else ""
    rounds = next(iter(load["variants"].values()))["rounds"]
    records = f"{load['events_per_record']} a record, {load['bytes_per_event']} bytes each" if "version" in load else ""
    records = records or "one a record"
    if disturbed := load.get("disturbed_rounds"):
        rounds = f"{rounds} ({disturbed} of them disturbed by other load)"
    sizes = f"{load['events']:,} events of {load['principals']:,} principals{flood}, batches of {load['batch']:,}"
    return f"{sizes}, {records}, {rounds} rounds after those to warm up; the first batch of each run does not count:\n"


def _latency(parts: Parts) -> Iterable[str]:
    rows = [
        [
            f"{each['rate']:,}",
            f"{each['principals']:,}",
            each["sink"],
            f"{each['p50_s']:.2f}",
            f"{each['p99_s']:.2f}",
            "0.8 / 3" if each["sink"] == "deltalake" else "3 / 6",
            *(f"{each[name]['p50_s']:.2f}" for name in ("wait_s", "batch_s", "read_s")),
            f"{each['behind']:,}",
        ]
        for each in results(parts, "latency")
    ]
    heads = ["events/s", "principals", "sink", "p50 s", "p99 s", "target", "waiting for a batch", "in it", "reading"]
    yield _table([*heads, "events behind at the end"], rows)
    yield "The parts of the time are medians of their own. The trigger is 1 s.\n"


def _sustained(parts: Parts) -> Iterable[str]:
    rows = []
    for each in results(parts, "sustained"):
        for name, found in each["found"].items():
            more = " (as much as the load could)" if found["load_was_the_limit"] else ""
            rate, ratio = f"{found['events_per_second']:,}{more}", each["ratios"].get(f"{name}/dedup")
            setting = [f"{each['trigger_seconds']:g} s", f"{each['principals']:,}", f"{each['confirm_seconds']:g} s"]
            rows.append([*setting, name, rate, f"{found['batch_median_s']:.2f}", "" if ratio is None else ratio])
    yield _table(["trigger", "principals", "confirmed for", "variant", "events/s", "batch s", "of dedup's (2)"], rows)
    yield "A stream keeps up if there is a batch per trigger, and what it has not read yet does not grow.\n"


def _state(parts: Parts) -> Iterable[str]:
    found = results(parts, "state")
    names = ["ledger_bytes", "filter_bytes", "active_pids", "optimum_bytes", "filter_overhead", "ledger_overhead"]
    # Every run has the same filters.
    filters = found[0]["filters"]
    rows = [[f"{int(quota):,}", *(f"{each[name]:,}" for name in names)] for quota, each in filters.items()]
    yield "A principal at twice its quota for two hours (target: filters at most 1.6 times the optimum):\n"
    yield _table(["quota", *(name.replace("_", " ") for name in names)], rows)
    rows = [
        [
            name,
            each["batches"],
            _spread(each["state_written_per_batch_bytes"], "{:,.0f}"),
            f"{each['state_bytes']:,}",
            f"{each['checkpoint_bytes']:,}",
            f"{each['checkpoint_files']:,}",
        ]
        for result in found
        for name, each in result["streams"].items()
    ]
    yield f"Batches of {found[0]['events_per_batch']:,} events, {found[0]['principals']:,} principals:\n"
    heads = ["variant", "batches", "state bytes written per batch", "state bytes", "checkpoint bytes", "its files"]
    yield _table(heads, rows)


def _core(parts: Parts) -> Iterable[str]:
    names = ["lookup_ns", "lookup_theirs_ns", "lookup_ratio", "admit_ns", "admit_theirs_ns", "admit_ratio"]
    for each in results(parts, "core"):
        rows = [
            [case.replace("_", " "), *(_spread(found[name], "{:,.4g}") for name in names)]
            for case, found in each["cases"].items()
        ]
        yield _table(["ledger of", *(name.replace("_", " ") for name in names)], rows)
    yield "Theirs is the filter alone, in Java; ours is a ledger with tokens and rate, in Python.\n"


def _scaleout(parts: Parts) -> Iterable[str]:
    for each in results(parts, "scaleout"):
        rows = [[name, _spread(found, "{:,.0f}")] for name, found in each["events_per_second"].items()]
        yield _table(["", "events/s"], [*rows, ["speed-up (target: 1.6)", _spread(each["speedup"], "{:.2f}")]])
        if "used" in each:
            heads = ["", "workers, CPU us/event", "driver, CPU us/event", "cores in use"]
            rows = [[name, *(_spread(used[of], "{:.2f}") for of in _USED)] for name, used in each["used"].items()]
            yield _table(heads, rows)
            yield _AMDAHL.format(**each)


def _cost(parts: Parts) -> Iterable[str]:
    for each in results(parts, "cost"):
        rows = [
            [
                name,
                f"{found['batch_s'] * 1000:.0f}",
                f"{found['principal_s'] * 1000:.2f}",
                f"{found['event_s'] * 1e6:.2f}",
                f"{found['worst_error']:.0%}",
            ]
            for name, found in each["fits"].items()
        ]
        yield _table(
            ["time", "ms per batch", "ms per active principal", "us per event", "worst error of the fit"], rows
        )


_USED = ("workers", "driver", "cores")
_AMDAHL = """Of a batch of {batch_s} s with one worker at most {serial_s} s are serial, so that 4 and 8 workers would be
{speedup_of_4} and {speedup_of_8} times as fast as one; where workers wait for a core, as two do here, this is too much.
"""
_SECTIONS = {
    "throughput": ("Throughput against source and peers", _throughput),
    "flood": ("Under a flood of PIDs", _flood),
    "latency": ("From a produce to its decision", _latency),
    "sustained": ("Highest steady rate", _sustained),
    "state": ("State", _state),
    "core": ("The core against commons-collections", _core),
    "scaleout": ("Two workers against one", _scaleout),
    "cost": ("What it costs", _cost),
}


def _spread(found: dict[str, float] | None, how: str) -> str:
    if found is None:
        return ""
    if found["min"] == found["max"]:
        return how.format(found["median"])
    return f"{how.format(found['median'])} ({how.format(found['min'])} to {how.format(found['max'])})"


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"
