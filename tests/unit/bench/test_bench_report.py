import sys
from pathlib import Path
from typing import Any

import pytest

from bench import kit, report
from bench.headline import MEANINGS, headline, meets, target_of
from bench.loads import BenchError
from bench.page import NOT_MEASURED, page
from tests.kits.bench_results_kit import every_part, load, run

ASKED_FOR = {
    "hold_p50_s",
    "hold_p99_s",
    "batch_constant_s",
    "vs_dedup_20000",
    "vs_exact_set_20",
    "vs_tws_20",
    "principal_known_us",
    "principal_other_us",
    "flood_throughput_ratio",
    "idle_cpu_cores",
    "stream_rss_mb",
    "broker_rate_ratio",
    "broker_p99_ratio",
    "broker_cpu_ratio",
}
MACHINE = {"cpu": "a cpu", "cores": 2}


def test_the_top_level_numbers_are_those_of_the_parts() -> None:
    assert headline(every_part()) == {
        "hold_p50_s": 0.91,
        "hold_p99_s": 1.41,
        "hold_asap_p50_s": 0.51,
        "hold_asap_p99_s": 0.61,
        "batch_constant_s": 0.65,
        "idle_cpu_cores": 0.25,
        "stream_rss_mb": 815,
        # The worst of both loads.
        "broker_rate_ratio": 0.97,
        "broker_p99_ratio": 1.02,
        "broker_cpu_ratio": 1.04,
        "broker_heap_mb": 31.5,
        "principal_known_us": 18.5,
        "principal_other_us": 48.5,
        "vs_dedup_20000": 4.0,
        "vs_exact_set_20": 1.9,
        "vs_tws_20": 4.0,
        "events_per_second": 4000,
        "bytes_per_event": 18.1,
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
        "guard_vs_dedup": 1.3,
    }


def test_figures_that_were_not_measured_are_null() -> None:
    found = headline({})

    assert set(found) >= ASKED_FOR
    assert set(found.values()) == {None}
    assert set(MEANINGS) == set(found) - {"guard_vs_dedup"}


def test_a_load_of_one_event_a_record_is_not_that_of_the_headline() -> None:
    slower = {"job/dedup": {"median": 0.1, "min": 0.1, "max": 0.1}}
    both = run(loads=[load(2000), load(2000, per_record=1.0) | {"ratios": slower}])

    assert headline({"throughput": both})["vs_dedup"] == 2.0


def test_a_number_that_equals_its_target_meets_it_and_2000_principals_have_the_higher_one() -> None:
    assert (meets("vs_dedup", 1.5), meets("bytes_per_event", 30), meets("vs_dedup", 1.49)) == (True, True, False)
    assert [target_of("dedup", principals) for principals in (2000, 2001)] == [1.5, 1.0]


def test_each_missed_target_of_the_committed_results_says_why() -> None:
    results = report.read(max(report.RESULTS.glob("*.json")))
    missed = [name for name in MEANINGS if meets(name, results.get(name)) is False]

    lines = page(results, "").splitlines()

    assert [name for name in missed if not any(f"`{name}`" in line and "**missed**: " in line for line in lines)] == []


def test_a_part_measured_later_joins_the_days_others() -> None:
    # given throughput, then a flood of the same day
    first = report.merged({}, "throughput", run(loads=[load(2000)]), MACHINE, "2026-01-01")
    both = report.merged(first, "flood", run(loads=[load(20, flood_pids=1)]), MACHINE, "2026-01-01")

    # when throughput is measured again
    slower = load(2000) | {"ratios": {"job/dedup": {"median": 0.1, "min": 0.1, "max": 0.1}}}
    again = report.merged(both, "throughput", run(loads=[slower]), MACHINE, "2026-01-01")

    assert (both["vs_dedup"], both["flood_throughput_ratio"], both["lookup_ns"]) == (2.0, 3.0, None)
    assert (again["vs_dedup"], again["flood_throughput_ratio"]) == (0.1, 3.0)


def test_the_page_shows_medians_spread_targets_and_commands_of_every_part() -> None:
    # given results of one day, but for the core
    parts = every_part()
    parts["core"][0]["date"] = "2025-12-31"
    result = {"date": "2026-01-01", **headline(parts), "machine": MACHINE, "parts": parts}

    text = page(result, "2026-01-01.json")

    assert "| `vs_dedup` | times the rate of `dropDuplicatesWithinWatermark` | 2 | >= 1.5 | met |" in text
    assert (
        "| `vs_exact_set` | times the rate of an exact Python set per principal | 0.9 | >= 1.2 | **missed** |" in text
    )
    # Principals, events a record, rate, ratios to dedup, set (below its target) and tws.
    assert "| 2,000 | 20.5 | 4,000 (3,990 to 4,010) | 2.00 | **0.90** | 3.00 (2.90 to 3.20) |" in text
    assert "| 1 worker | 10 | 3.50 | 0.50 | 1.20 |" in text
    assert "Heap at 1,000,000 PIDs: 362.0 MB with the plugin, 330.5 MB without." in text
    # One section has the headline. The parts `principals` and `guard` have no other figures.
    assert text.count("\n## ") == 1 + len(parts.keys() - {"principals", "guard"})
    assert "`make bench-full` measured these figures on 2026-01-01" in text
    assert text.count("Measured on 2025-12-31.") == 1


def test_a_page_of_one_part_says_what_was_not_measured() -> None:
    result = report.merged({}, "throughput", run(loads=[load(2000)]), MACHINE, "2026-01-01")

    text = page(result, "2026-01-01.json")

    assert text.count(NOT_MEASURED) == len(MEANINGS) - 5
    assert "Highest steady rate" not in text


def test_a_run_that_fails_keeps_what_was_known_of_it_and_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a part of two commands, both measured yesterday
    commands = (("first.py",), ("second.py",))
    monkeypatch.setitem(report.PARTS, "core", report.Part((), commands, 0, 1))
    monkeypatch.setattr(kit, "machine", lambda: MACHINE)
    of_core = every_part()["core"][0]
    known = [of_core | {"command": report.shown(each), "date": "2026-01-01"} for each in commands]
    before = {"parts": {"core": known, "flood": run(loads=[load(20, flood_pids=1)])}}

    # when one fails today
    def fails_second(command: report.Command, date: str, limit_s: float) -> dict[str, Any]:
        if command == commands[1]:
            msg = "the time of its part was up"
            raise BenchError(msg)
        return of_core | {"command": report.shown(command), "date": date}

    monkeypatch.setattr(report, "measured", fails_second)
    failures = report.measure(["core"], tmp_path / "2026-01-02.json", before, "2026-01-02", full=True)

    # then its figures are yesterday's
    found = report.read(tmp_path / "2026-01-02.json")
    assert failures == {"bench/second.py": "the time of its part was up"}
    assert [each["date"] for each in found["parts"]["core"]] == ["2026-01-02", "2026-01-01"]
    assert found["flood_throughput_ratio"] == 3.0


def test_a_run_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(600)")
    monkeypatch.setattr(kit, "BENCH", tmp_path)

    with pytest.raises(BenchError, match="time of its part was up"):
        report.measured(("slow.py",), "2026-01-01", 0.2)


def test_a_script_that_fails_after_its_results_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "failing.py").write_text("print('{}', flush=True)\nraise SystemExit(3)")
    monkeypatch.setattr(kit, "BENCH", tmp_path)

    with pytest.raises(BenchError, match="it ended with exit code 3"):
        report.measured(("failing.py",), "2026-01-01", 60)


def test_the_headline_of_old_results_is_that_of_today(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = report.merged({}, "throughput", run(loads=[load(2000)]), MACHINE, "2026-01-01")
    report.write(tmp_path / "2026-01-01.json", old | {"vs_dedup": 99.0})
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    monkeypatch.setattr(report, "DOCS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["report.py", "--render-only"])

    assert report.main() == 0

    assert "| 2 | >= 1.5 | met |" in (tmp_path / "performance.md").read_text(encoding="utf-8")
