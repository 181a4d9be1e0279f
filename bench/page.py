"""Renders `docs/performance.md` from the results: tables of medians, spread and targets."""

from collections.abc import Iterable, Sequence
from typing import Any

from bench.headline import MEANINGS, TARGETS, WHY_MISSED, Parts, loads, meets, results, target_of

NOT_MEASURED = "not measured"
_INTRODUCTION = """# Performance

*For whoever asks how fast the stream is, and on which machine.*

`make bench-full` measured these figures on {date}, and wrote this page from
[its results](../bench/results/{source}). Don't edit the page. The broker, the load generator, the driver and the
workers share one machine. Ratios compare variants that took turns on the same records. Figures are medians;
parentheses show the minimum and the maximum of the rounds. *The plugin* is [`pidquota.Reporter`](plugin.md), and a
*ledger* is the state of a principal. [Design records](index.md#decisions) give the reasons.
"""
_PEERS = """The peers are `dropDuplicatesWithinWatermark` (dedup), an exact Python set per principal (set), and our
ledgers in `transformWithStateInPandas` (tws). The targets are 1.5 times dedup's rate up to 2,000 principals, dedup's
rate beyond, and 1.2 times the rate of the others. Bold ratios miss their target.
"""
_VARIANTS = "`job-each` has a row of state per principal; `job-delta-spark` writes tables by Spark.\n"
_STEADY = "A stream keeps up if it runs one batch per trigger and the number of unread events does not grow.\n"
_CORE = "Nanoseconds. commons-collections (Java) runs only a Bloom filter. A ledger (Python) does more: tokens, rate.\n"
_LATENCY = "The trigger is 1 s. Each part has its own median; they don't add up. `behind`: unread records at the end.\n"


def page(result: dict[str, Any], source: str) -> str:
    """Return the page of results. `source` is the name of their file."""
    facts = {name: round(value, 2) if isinstance(value, float) else value for name, value in result["machine"].items()}
    machine = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in facts.items())
    sections = [
        _INTRODUCTION.format(source=source, date=result["date"]),
        f"Machine: {machine}.\n",
        "## At a glance\n",
        _headline(result),
    ]
    for name, (title, body) in _SECTIONS.items():
        runs = result["parts"].get(name, [])
        if not runs:
            continue
        sections.append(f"## {title}\n")
        days = sorted({run["date"] for run in runs})
        if days != [result["date"]]:
            sections.append(f"Measured on {', '.join(days)}.\n")
        sections += body(result["parts"])
    return "\n".join(sections)


def _headline(result: dict[str, Any]) -> str:
    rows = [
        [
            f"`{name}`",
            meaning,
            NOT_MEASURED if result.get(name) is None else _number(result[name]),
            " ".join(each if isinstance(each, str) else _number(each) for each in TARGETS.get(name, ())),
            _verdict(name, result.get(name)),
        ]
        for name, meaning in MEANINGS.items()
    ]
    return _table(["number", "meaning", "measured", "target", ""], rows)


def _verdict(name: str, value: float | None) -> str:
    missed = f"**missed**: {WHY_MISSED[name]}" if name in WHY_MISSED else "**missed**"
    return {True: "met", False: missed, None: ""}[meets(name, value)]


def _number(value: float) -> str:
    return f"{value:,}".removesuffix(".0")


def _throughput(parts: Parts) -> Iterable[str]:
    yield _PEERS
    found = loads(parts, "throughput")
    rows = [
        [
            f"{load['principals']:,}",
            f"{load['events_per_record']:g}",
            _spread(load["variants"]["job"]["events_per_second"], "{:,.0f}"),
            *(_ratio(load, base) for base in ("dedup", "set", "tws")),
        ]
        for load in found
        if "job/dedup" in load["ratios"]
    ]
    heads = ["principals", "events a record", "events/s", "times dedup", "times set", "times tws"]
    yield _table(heads, rows)
    for load in found:
        if "job/dedup" not in load["ratios"]:
            yield f"Variants of the job, {load['principals']:,} principals. {_VARIANTS}"
            yield _variants(load)


def _ratio(load: dict[str, Any], base: str) -> str:
    ratio, target = load["ratios"].get(f"job/{base}"), target_of(base, load["principals"])
    if ratio is None or target is None or ratio["median"] >= target:
        return _spread(ratio, "{:.2f}")
    return _spread(ratio, "**{:.2f}**")


def _variants(load: dict[str, Any]) -> str:
    rows = [
        [
            name,
            _spread(found["events_per_second"], "{:,.0f}"),
            f"{found['cpu_us_per_event']['median']:.1f}",
            f"{found['state_bytes']['median'] / 1024:,.0f}",
            f"{found['state_rows']:,}",
        ]
        for name, found in load["variants"].items()
    ]
    return _table(["variant", "events/s", "CPU us/event", "state KiB on disk", "rows of state"], rows)


def _flood(parts: Parts) -> Iterable[str]:
    for load in loads(parts, "flood"):
        sizes = f"{load['events']:,} events of {load['principals']:,} principals"
        yield f"{sizes}; {load['flood_pids']:,} of these events have a new PID of one more principal:\n"
        yield _variants(load)
        yield f"The job is {_spread(load['ratios']['job/dedup'], '{:.2f}')} times as fast as dedup.\n"


def _latency(parts: Parts) -> Iterable[str]:
    rows = [
        [
            f"{each['rate']:,}",
            f"{each['principals']:,}",
            each["sink"],
            f"{each['p50_s']:.2f}",
            f"{each['p99_s']:.2f}",
            *(f"{each[name]['p50_s']:.2f}" for name in ("wait_s", "batch_s", "read_s")),
            f"{each['behind']:,}",
        ]
        for each in results(parts, "latency")
    ]
    heads = ["events/s", "principals", "sink", "p50 s", "p99 s", "waiting", "in the batch", "reading", "behind"]
    yield _LATENCY
    yield _table(heads, rows)


def _hold(parts: Parts) -> Iterable[str]:
    rows = [
        [each["trigger"], name, found["n"], f"{found['p50_s']:.2f}", f"{found['p99_s']:.2f}"]
        for each in results(parts, "hold")
        for name, found in each["found"].items()
        if "p50_s" in found
    ]
    yield "A client makes a producer for each message, and the stream enforces.\n"
    yield _table(["trigger", "from -> to", "trials", "p50 s", "p99 s"], rows)


def _idle(parts: Parts) -> Iterable[str]:
    names = ["cpu_cores", "cpu_s_per_batch", "batches_per_second", "rss_mb", "driver_rss_mb"]
    rows = [[each["trigger"], f"{each['rate']:,}", *(each[name] for name in names)] for each in results(parts, "idle")]
    yield "Memory is the proportional set size, first of the JVM and the workers, then of the driver's Python.\n"
    yield _table(["trigger", "events/s", "cores", "CPU s a batch", "batches/s", "MB", "MB, driver"], rows)


def _broker(parts: Parts) -> Iterable[str]:
    names = ["records_per_second", "p99_ms", "broker_cpu_us_per_record"]
    rows = [
        [load, *(f"{found['on'][f'{name}_ratio']:.3f} {_bounds(found['on'][f'{name}_spread'])}" for name in names)]
        for each in results(parts, "broker")
        for load, found in each["results"].items()
    ]
    yield "Five brokers with the plugin, relative to five without. Parentheses: the lowest and the highest broker.\n"
    yield _table(["load", "rate", "p99", "CPU"], rows)
    for each in results(parts, "broker"):
        if "heap" in each:
            heap = each["heap"]
            yield f"Heap at {heap['pids']:,} PIDs: {heap['on_mb']} MB with the plugin, {heap['off_mb']} MB without.\n"


def _sustained(parts: Parts) -> Iterable[str]:
    rows = []
    for each in results(parts, "sustained"):
        rates = []
        for found in (each["found"][name] for name in ("job", "dedup")):
            least = "at least " if found["load_was_the_limit"] else ""
            rates += [f"{least}{found['events_per_second']:,}", f"{found['batch_median_s']:.2f}"]
        rows.append([f"{each['trigger_seconds']:g} s", f"{each['principals']:,}", *rates, each["ratios"]["job/dedup"]])
    yield _STEADY
    yield _table(["trigger", "principals", "events/s", "batch s", "dedup, events/s", "batch s", "ratio"], rows)


def _state(parts: Parts) -> Iterable[str]:
    found = results(parts, "state")
    names = ["ledger_bytes", "filter_bytes", "active_pids", "optimum_bytes", "filter_overhead"]
    # The filters are the same in every run.
    filters = [
        [f"{int(quota):,}", *(f"{each[name]:,}" for name in names)] for quota, each in found[0]["filters"].items()
    ]
    yield "A principal at twice its quota for two hours (optimum: one Bloom filter of just the right size):\n"
    yield _table(["quota", *(name.replace("_", " ") for name in names)], filters)


def _core(parts: Parts) -> Iterable[str]:
    names = ["lookup_ns", "lookup_theirs_ns", "admit_ns", "admit_theirs_ns"]
    for each in results(parts, "core"):
        rows = [
            [case.replace("_", " "), *(f"{found[name]['median']:,.4g}" for name in names)]
            for case, found in each["cases"].items()
        ]
        yield _CORE
        yield _table(["ledger of", "look-up, ours", "theirs", "admission, ours", "theirs"], rows)


def _scaleout(parts: Parts) -> Iterable[str]:
    for each in results(parts, "scaleout"):
        rows = [
            [
                name,
                _spread(each["events_per_second"][name], "{:,.0f}"),
                *(f"{used[of]['median']:.2f}" for of in ("workers", "driver", "cores")),
            ]
            for name, used in each["used"].items()
        ]
        heads = ["workers", "events/s", "workers, CPU us/event", "driver, CPU us/event", "cores in use"]
        yield f"Two workers are {_spread(each['speedup'], '{:.2f}')} times as fast as one (target: 1.6).\n"
        yield _table(heads, rows)


_SECTIONS = {
    "throughput": ("Throughput against peers", _throughput),
    "flood": ("Under a flood of PIDs", _flood),
    "latency": ("From a produce request to its decision", _latency),
    "hold": ("From the request over the quota to the hold", _hold),
    "idle": ("Idle load", _idle),
    "broker": ("Brokers with the plugin", _broker),
    "sustained": ("Highest steady rate", _sustained),
    "state": ("State", _state),
    "core": ("The core against commons-collections", _core),
    "scaleout": ("Two workers against one", _scaleout),
}


def _spread(found: dict[str, float] | None, how: str) -> str:
    if found is None:
        return ""
    if found["min"] == found["max"]:
        return how.format(found["median"])
    plain = how.replace("*", "")
    return f"{how.format(found['median'])} ({plain.format(found['min'])} to {plain.format(found['max'])})"


def _bounds(found: Sequence[float]) -> str:
    return f"({found[0]:.3f} to {found[1]:.3f})"


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"
