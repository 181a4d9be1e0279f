"""Plots of the results as `docs/img/perf-<part>.svg` (needs matplotlib: the dependency group `bench`)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.headline import Parts, loads, results

# Equal results give equal files, and text stays text.
mpl.rcParams.update({"svg.hashsalt": "pid-quota", "svg.fonttype": "none", "font.size": 9})
SIZE_INCHES = (7.5, 3.5)


def draw_all(result: dict[str, Any], folder: Path) -> list[str]:
    """Draw the plots of the parts that were measured, and return their names."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = [name for name in PLOTS if result["parts"].get(name)]
    for name in drawn:
        figure = Figure(figsize=SIZE_INCHES, layout="constrained")
        axes = figure.add_subplot()
        PLOTS[name](axes, result["parts"])
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(folder / f"perf-{name}.svg", metadata={"Date": None})
    return drawn


def _throughput(axes: Axes, parts: Parts) -> None:
    found = loads(parts, "throughput")
    names = list(dict.fromkeys(name for load in found for name in load["variants"]))
    for number, name in enumerate(names):
        rows = [(place, load["variants"].get(name)) for place, load in enumerate(found)]
        rates = [(place, each["events_per_second"]) for place, each in rows if each]
        middle = [rate["median"] for _, rate in rates]
        errors = [
            [rate["median"] - rate["min"] for _, rate in rates],
            [rate["max"] - rate["median"] for _, rate in rates],
        ]
        places = [place + (number - len(names) / 2) * 0.8 / len(names) for place, _ in rates]
        axes.bar(places, middle, 0.8 / len(names), yerr=errors, label=name, error_kw={"lw": 0.8})
    axes.set_yscale("log")
    axes.set_ylabel("events per second")
    more = {1: "\nan event a record"}
    labels = [f"{load['principals']:,} principals{more.get(load['version'], '')}" for load in found]
    axes.set_xticks(range(len(found)), labels)
    axes.legend(ncols=2, frameon=False)


def _latency(axes: Axes, parts: Parts) -> None:
    found = results(parts, "latency")
    labels = [f"{each['rate']:,}/s, {each['principals']:,} principals, {each['sink']}" for each in found]
    left = [0.0] * len(found)
    for name, label in (("wait_s", "waiting for a batch"), ("batch_s", "in the batch"), ("read_s", "reading")):
        widths = [each[name]["p50_s"] for each in found]
        axes.barh(labels, widths, left=left, label=label)
        left = [before + width for before, width in zip(left, widths, strict=True)]
    axes.plot([each["p99_s"] for each in found], labels, "k|", label="99th percentile of the whole")
    axes.invert_yaxis()
    axes.set_xlabel("seconds (medians)")
    axes.legend(frameon=False)


def _sustained(axes: Axes, parts: Parts) -> None:
    rows = [
        (f"{each['trigger_seconds']:g} s, {each['principals']:,} principals, {name}", variant["events_per_second"])
        for each in results(parts, "sustained")
        for name, variant in each["found"].items()
    ]
    axes.barh([label for label, _ in rows], [rate for _, rate in rows])
    axes.invert_yaxis()
    axes.set_xlabel("events per second at which batches keep up")


def _state(axes: Axes, parts: Parts) -> None:
    for each in results(parts, "state"):
        for name, found in each["streams"].items():
            grown = {int(batches): size / 1024 for batches, size in found["checkpoint_bytes_after_batches"].items()}
            axes.plot(list(grown), list(grown.values()), "o-", label=name)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("batches")
    axes.set_ylabel("KiB of checkpoint")
    axes.legend(frameon=False)


PLOTS: dict[str, Callable[[Axes, Parts], None]] = {
    "throughput": _throughput,
    "latency": _latency,
    "sustained": _sustained,
    "state": _state,
}
