"""`pid-quota size`, and its model: sums that can be checked by hand, and directions that must hold for any cluster."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.size.command import of_stream
from jobs.size.costs import COSTS, seconds
from jobs.size.limits import Settings, limits
from jobs.size.model import MOST_STATE_PARTITIONS, REMEMBERED_PIDS, Cluster, batch, storage, stream, taps
from tests.unit.jobs.command_kit import PidQuota

ROOT = Path(__file__).parents[3]
SMALL = Cluster(brokers=3, produce_requests=3000, principals=20, pids=2000)
LARGE = Cluster(brokers=100, produce_requests=2_000_000, principals=20_000, pids=2_000_000, new_pids_per_hour=20_000)
SETTINGS = Settings(
    events_per_batch=2_000_000,
    max_principals=50_000,
    max_uncharged_bytes=2 * 1024 * 1024,
    collected_bytes=2**30,
    partitions=20_000,
    partitions_per_request=20,
    requests_per_s=5.0,
    window_s=3600,
)
OPTIONS = ("--brokers", 100, "--produce-requests", 2_000_000, "--principals", 20_000, "--pids", 2_000_000)
clusters = st.builds(
    Cluster,
    brokers=st.integers(1, 200),
    produce_requests=st.floats(1, 1e6),
    principals=st.integers(1, 300),
    pids=st.integers(300, 100_000),
    new_pids_per_hour=st.floats(0, 1e5),
    skew=st.floats(0, 2),
    trigger_s=st.floats(1, 60),
)


def names(cluster: Cluster, settings: Settings = SETTINGS) -> list[str]:
    found = limits(cluster, taps(cluster), stream(cluster), settings)
    return [each.name for each in found if each.share > 1]


def test_every_cost_names_a_script_that_measures_it() -> None:
    scripts = {cost.command.split()[0] for cost in COSTS.values()}
    assert [script for script in scripts if not (ROOT / script).is_file()] == []
    assert all(cost.value > 0 and cost.what for cost in COSTS.values())


def test_bounds_of_the_stream_are_those_of_its_code() -> None:
    session = (ROOT / "streaming" / "session.py").read_text(encoding="utf-8")
    memory = (ROOT / "streaming" / "decode" / "forwarded.py").read_text(encoding="utf-8")
    assert re.findall(r"^(?:\w+, )?_MOST_PARTITIONS = (?:\d+, )?(\d+)$", session, re.MULTILINE) == [
        str(MOST_STATE_PARTITIONS)
    ]
    assert f"_MAX_PIDS = {REMEMBERED_PIDS:_}\n" in memory


def test_busy_producers_send_one_event_per_broker_and_interval() -> None:
    # Given 2,000 PIDs, each on 3 brokers, and far more batches than these pairs
    busy = replace(SMALL, produce_requests=1e9)
    # Then each pair is seen once per interval
    assert taps(busy).events_per_s == pytest.approx(2000 * 3 / 10)
    assert taps(replace(busy, repeats_s=1.0)).events_per_s == pytest.approx(2000 * 3)


def test_rare_producers_send_an_event_per_batch() -> None:
    rare = replace(SMALL, produce_requests=1.0)
    assert taps(rare).events_per_s == pytest.approx(1.0, rel=1e-2)


def test_a_batch_is_the_sum_of_its_parts() -> None:
    found = batch(SMALL)
    assert found.cpu_s == pytest.approx(
        seconds("batch")
        + found.events * seconds("event")
        + found.active_principals * seconds("principal")
        + found.tick_pids * seconds("tick_pid")
    )


@given(clusters)
def test_more_requests_never_take_less(cluster: Cluster) -> None:
    more = replace(cluster, produce_requests=cluster.produce_requests * 2)
    assert taps(more).cores >= taps(cluster).cores
    assert batch(more).cpu_s >= batch(cluster).cpu_s
    assert storage(more).topic_per_s >= storage(cluster).topic_per_s


@given(clusters)
def test_no_more_events_than_batches_and_new_ids(cluster: Cluster) -> None:
    assert taps(cluster).events_per_s <= (cluster.batches_per_s + cluster.new_pids_per_s) * (1 + 1e-9)


def test_new_ids_are_work_for_the_rules_beside_those_of_a_tick() -> None:
    # One principal whose ids are each new, once: nothing is known, nothing repeats.
    cluster = Cluster(brokers=1, produce_requests=1, principals=1, pids=1, new_pids_per_hour=3600, trigger_s=10)
    found = batch(cluster)
    assert found.tick_pids == pytest.approx(10 + 1, abs=0.1)
    expected_s = found.active_principals * seconds("principal") + found.tick_pids * seconds("tick_pid")
    assert found.rules_s == pytest.approx(expected_s + 10 * seconds("new_pid"))


def test_cores_that_fill_no_executor_take_one_more() -> None:
    streamed = replace(stream(LARGE), cores=9)
    executors = {row[1]: row[2] for row in of_stream(streamed, 4)}["executors"]
    assert executors == 3


@given(clusters, st.integers(1, 64))
def test_another_core_never_slows_a_batch_down(cluster: Cluster, cores: int) -> None:
    found = batch(cluster)
    assert found.wall_s(cores + 1) <= found.wall_s(cores)


def test_a_trigger_below_a_batch_s_fixed_time_has_no_number_of_cores() -> None:
    found = stream(replace(SMALL, trigger_s=0.5))
    assert found.cores is None
    assert "a batch's fixed time" in names(replace(SMALL, trigger_s=0.5))


@pytest.mark.parametrize(
    ("cluster", "settings", "limit"),
    [
        (replace(LARGE, repeats_s=1.0), SETTINGS, "events of a batch"),
        (LARGE, replace(SETTINGS, max_principals=10_000), "the roster"),
        (LARGE, replace(SETTINGS, partitions=1_000_000), "learning by asking"),
        (replace(LARGE, skew=1.5), SETTINGS, "PIDs of one principal that take no token"),
        (replace(LARGE, brokers=1, brokers_per_pid=1), SETTINGS, "a tap's core"),
        (replace(LARGE, pids=10_000_000), SETTINGS, "state partitions"),
        (replace(LARGE, skew=2.0), SETTINGS, "one partition per principal"),
        (replace(LARGE, principals=500_000, trigger_s=5.0), SETTINGS, "the driver's collect, time"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_limit_gives_where_its_figure_is_too_large(cluster: Cluster, settings: Settings, limit: str) -> None:
    assert limit in names(cluster, settings)


def test_a_small_cluster_reaches_no_limit() -> None:
    assert names(SMALL) == []


def test_people_read_figures_limits_and_what_gives_first(pid_quota: PidQuota) -> None:
    code, out, err = pid_quota("size", *OPTIONS)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["part", "figure", "value", "unit", "note"]
    assert any(line.startswith("storage  state") for line in lines)
    assert lines[-2].startswith("does not fit: events of a batch")
    assert "First: raise --max-offsets-per-trigger" in lines[-2]
    assert "docs/scale.md" in lines[-1]


def test_a_cluster_that_fits_is_told_what_gives_first(pid_quota: PidQuota) -> None:
    _, out, _ = pid_quota("size", *OPTIONS, "--max-offsets-per-trigger", 10_000_000, "--trigger-seconds", 10)
    assert out.splitlines()[-2].startswith("fits. First to give: ")


def test_programs_read_all_rows_as_json_and_csv(pid_quota: PidQuota) -> None:
    rows = json.loads(pid_quota("size", *OPTIONS, "--json")[1])
    by_name = {row["figure"]: row for row in rows}
    assert by_name["a broker's file"]["unit"] == "MB/s"
    assert by_name["the roster"] | {"note": ""} == {
        "part": "limit",
        "figure": "the roster",
        "value": 40.0,
        "unit": "%",
        "note": "",
    }
    assert pid_quota("size", *OPTIONS, "--csv")[1].count("\n") == len(rows) + 1


def test_more_principals_than_ids_are_refused(pid_quota: PidQuota) -> None:
    code, _, err = pid_quota("size", *OPTIONS[:6], "--pids", 10)
    assert code == 2
    assert "give at least one each" in err
