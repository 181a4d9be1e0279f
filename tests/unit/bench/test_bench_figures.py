"""The arithmetic of figures, and what the report says of them."""

import json
from typing import Any

import pytest

from bench.broker_cost import Load, ratios
from bench.kit import figure
from bench.lever import QUOTA, lever_figures
from bench.page import ROWS, lines, meets, page
from bench.report import RESULTS, merged

MACHINE = {"machine": {"cores": 2}, "figures": {}, "details": {}}
ROW = {"key": "k", "meaning": "m", "compare": "<=", "target": "1.0", "why_missed": "because"}


def measured(value: float, **more: str) -> dict[str, Any]:
    return {"value": value, "low": value, "high": value, "date": "2026-01-01", "note": ""} | more


def test_a_figure_is_a_percentile_with_the_bounds_of_its_values() -> None:
    values = [float(each) for each in range(101)]

    assert figure(values, 99) == {"value": 99, "low": 0, "high": 100}
    assert figure([1.23456])["value"] == 1.235


def test_the_lever_counts_from_the_first_pid_over_the_quota_and_the_slower_way_counts() -> None:
    # given a bucket of 20 that admits 21: the 22nd delivery, at 21 s, is over the quota
    delivered_s = [float(each) for each in range(QUOTA + 3)]

    held_late = lever_figures([(delivered_s, 30.0), (delivered_s, 31.0)])
    late_last_pid = lever_figures([([*delivered_s, 90.0], 30.0), ([*delivered_s, 90.0], 31.0)])

    assert held_late["lever_p50_s"] == {"value": 9.5, "low": 9, "high": 10}
    assert late_last_pid["lever_p50_s"]["value"] == 70


def test_a_ratio_compares_brokers_by_the_medians_of_their_rounds() -> None:
    # given two brokers a kind, of three rounds each; one round is disturbed
    off = [[Load(100, 10, 50)] * 3, [Load(100, 10, 50), Load(1, 900, 900), Load(100, 10, 50)]]
    on = [[Load(90, 11, 55)] * 3, [Load(100, 12, 50)] * 3]

    found = ratios(off, on)

    assert found["broker_rate_ratio"] == {"value": 0.95, "low": 0.9, "high": 1}
    assert found["broker_p99_ratio"]["value"] == 1.15
    assert found["broker_cpu_ratio"]["high"] == 1.1


@pytest.mark.parametrize(
    ("compare", "value", "is_met"), [("<=", 1.0, True), ("<=", 1.01, False), (">=", 1.0, True), (">=", 0.99, False)]
)
def test_a_figure_that_equals_its_target_meets_it(compare: str, value: float, *, is_met: bool) -> None:
    assert meets(ROW | {"compare": compare}, value) is is_met


def test_figures_that_a_part_does_not_give_keep_their_value_and_date() -> None:
    before = MACHINE | {"figures": {"a": measured(1), "b": measured(2)}, "details": {"old": 1}}

    now = merged(before, {"figures": {"b": figure([3.0])}}, "2026-01-02", "busy machine")

    assert now["figures"]["a"] == measured(1)
    assert now["figures"]["b"] == measured(3, date="2026-01-02", note="busy machine")
    assert merged(now, {}, "2026-01-03", "") == now


def test_the_page_marks_what_is_missed_and_says_why_and_what_was_not_measured() -> None:
    met, missed, unknown = ROWS[0], ROWS[1], ROWS[2]
    figures = {met["key"]: measured(0.0), missed["key"]: measured(9.0, note=", busy machine") | {"low": 8.0}}

    found = list(lines(MACHINE | {"figures": figures}))

    assert f"| `{met['key']}`: {met['meaning']} | ≤{met['target']} | 0 |  |" in found
    assert f"| `{missed['key']}`: {missed['meaning']} | ≤{missed['target']} | **9** | 8…9 |" in found
    assert f"- `{missed['key']}`: {missed['why_missed']}" in found
    assert f"Measured on 2026-01-01, busy machine: {missed['key']}." in found
    assert any(unknown["key"] in line and "not measured" in line for line in found)


def test_a_new_page_keeps_what_people_wrote() -> None:
    first = page("before\n<!-- generated: begin -->\nyesterday\n<!-- generated: end -->\nafter\n", MACHINE)

    assert first.startswith("before\n")
    assert first.endswith("<!-- generated: end -->\nafter\n")
    assert "yesterday" not in first
    assert page(first, MACHINE) == first


def test_every_figure_of_the_newest_results_has_a_row_and_every_row_a_reason() -> None:
    results = json.loads(max(RESULTS.glob("*.json")).read_text(encoding="utf-8"))

    assert results["figures"].keys() <= {row["key"] for row in ROWS}
    assert all(len(row) == 5 and row["why_missed"] for row in ROWS)
