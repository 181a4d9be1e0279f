import report
from headline import MEANINGS, headline, meets
from page import NOT_MEASURED, page

from tests.unit.bench.bench_results_kit import every_part, load, run

ASKED_FOR = {
    "roofline_ratio",
    "vs_dedup",
    "vs_tws",
    "vs_exact_set",
    "flood_state_ratio",
    "flood_throughput_ratio",
    "latency_p50_s",
    "latency_p99_s",
    "sustained_vs_dedup",
    "bloom_overhead",
    "lookup_ns",
    "admit_ns",
    "scaleout_speedup",
}
MACHINE = {"cpu": "a cpu", "cores": 2}


def test_the_top_level_numbers_are_those_of_the_parts() -> None:
    assert headline(every_part()) == {
        "roofline_ratio": 0.42,
        "roofline_ratio_tuned": 0.33,
        "vs_dedup": 2.0,
        "vs_tws": 3.0,
        "vs_exact_set": 0.9,
        "flood_state_ratio": 0.02,
        "flood_throughput_ratio": 3.0,
        # The worst rate of the default sink at 200 principals.
        "latency_p50_s": 1.2,
        "latency_p99_s": 3.5,
        "sustained_vs_dedup": 2.1,
        "bloom_overhead": 1.5,
        "lookup_ns": 250.0,
        "admit_ns": 9000.0,
        "scaleout_speedup": 1.7,
        "guard_roofline_ratio": 0.3,
    }


def test_what_was_not_measured_is_null() -> None:
    found = headline({})

    assert set(found) >= ASKED_FOR
    assert set(found.values()) == {None}
    assert set(MEANINGS) == set(found)


def test_a_part_measured_later_joins_the_days_others() -> None:
    # given throughput, then a flood of the same day
    first = report.merged({}, "throughput", run(loads=[load(2000)]), MACHINE, "2026-01-01")
    both = report.merged(first, "flood", run(loads=[load(20, flood_pids=1)]), MACHINE, "2026-01-01")

    # when throughput is measured again
    slower = load(2000) | {"ratios": {"job/source": {"median": 0.1, "min": 0.1, "max": 0.1}}}
    again = report.merged(both, "throughput", run(loads=[slower]), MACHINE, "2026-01-01")

    assert (both["roofline_ratio"], both["flood_throughput_ratio"], both["lookup_ns"]) == (0.42, 3.0, None)
    assert (again["roofline_ratio"], again["flood_throughput_ratio"]) == (0.1, 3.0)


def test_targets_are_met_or_missed_or_unknown() -> None:
    assert meets("roofline_ratio", 0.4) is True
    assert meets("vs_dedup", 1.0) is False
    assert meets("latency_p99_s", 3.1) is False
    assert meets("lookup_ns", 250.0) is None
    assert meets("scaleout_speedup", None) is None


def test_the_page_shows_medians_spread_targets_and_commands_of_every_part() -> None:
    parts = every_part()
    result = {"date": "2026-01-01", **headline(parts), "machine": MACHINE, "parts": parts}

    text = page(result, "2026-01-01.json", ["throughput"])

    assert (
        "| `roofline_ratio` | the whole job's rate as a share of the bare Kafka source's | 0.42 | >= 0.4 | yes |"
        in text
    )
    assert "| `vs_exact_set` | times as fast as an exact Python set per principal | 0.9 | > 1.0 | **no** |" in text
    assert "| job | 4,000 (3,990 to 4,010) | 0.42 (0.40 to 0.45) |" in text
    assert "img/perf-throughput.svg" in text
    assert "img/perf-latency.svg" not in text
    assert text.count("Measured on 2026-01-01.") == len(parts) - 1
    # Every part but the guard has a section, which begins with its command.
    assert text.count("    .venv/bin/python bench/some.py --asked") == sum(map(len, parts.values())) - 1


def test_a_page_of_one_part_says_what_was_not_measured() -> None:
    result = report.merged({}, "throughput", run(loads=[load(2000)]), MACHINE, "2026-01-01")

    text = page(result, "2026-01-01.json")

    assert text.count(NOT_MEASURED) == len(MEANINGS) - 5
    assert "Highest steady rate" not in text


def test_quick_and_full_measure_what_they_promise() -> None:
    assert all(part.full for part in report.PARTS.values())
    assert any("--principals 2000 --events 1000000" in " ".join(each) for each in report.PARTS["throughput"].quick)
    assert any("--principals 2000 --events 2000000" in " ".join(each) for each in report.PARTS["throughput"].full)
