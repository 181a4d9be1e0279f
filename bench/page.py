"""The generated part of `docs/performance.md`: figures beside their targets, and how cost grows."""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- generated: begin -->\n", "<!-- generated: end -->\n"
Row = Mapping[str, str]
ROWS: list[Row] = list(csv.DictReader(Path(__file__).with_name("figures.csv").read_text().splitlines(), delimiter=";"))
"""Figures: headline key, meaning, comparison and target, and why the target is missed."""


def page(template: str, results: Mapping[str, Any]) -> str:
    """Return a page with a new generated part."""
    before, _, rest = template.partition(BEGIN)
    generated = "\n".join(lines(results))
    return f"{before}{BEGIN}\n{generated}\n\n{END}{rest.partition(END)[2]}"


def lines(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the generated part."""
    figures, growth = results["figures"], results["details"].get("growth", ())
    known = [row for row in ROWS if row["key"] in figures]
    missed = [row for row in known if not meets(row, figures[row["key"]]["value"])]
    yield "Machine: " + ", ".join(f"{name} {value}" for name, value in results["machine"].items()) + "."
    yield from ("", "| figure | target | measured | spread |", "|---|---|---|---|")
    yield from (table_line(row, figures.get(row["key"])) for row in ROWS)
    notes = {row["key"]: f"Measured on {figures[row['key']]['date']}{figures[row['key']]['note']}" for row in known}
    for note in dict.fromkeys(notes.values()):
        yield from ("", f"{note}: {', '.join(key for key, own in notes.items() if own == note)}.")
    yield from ("", "Missed:", "", *(f"- `{row['key']}`: {row['why_missed']}" for row in missed)) if missed else ()
    if growth:
        yield from ("", "| principals | cores | CPU s | s |", "|---|---|---|---|")
    yield from (
        f"| {each['principals']:,} | {each['cores']} | {each['cpu_s']:.2f} | {each['wall_s']:.2f} |" for each in growth
    )


def meets(row: Row, value: float) -> bool:
    """Return whether a value reaches a figure's target."""
    target = float(row["target"])
    return value >= target if row["compare"] == ">=" else value <= target


def table_line(row: Row, found: Mapping[str, Any] | None) -> str:
    """Return a row of the table."""
    begin = f"| `{row['key']}`: {row['meaning']} | {'≥' if row['compare'] == '>=' else '≤'}{row['target']} |"
    if found is None:
        return f"{begin} not measured | |"
    value, low, high = (f"{found[each]:,.4g}" for each in ("value", "low", "high"))
    shown = value if meets(row, found["value"]) else f"**{value}**"
    return f"{begin} {shown} | {'' if low == high else f'{low}…{high}'} |"
