import platform
import urllib.error
import urllib.request
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from broker.enforcement.enforcer import Standing
from broker.occupancy.census import TakenCensus
from broker.occupancy.census_report import BrokerOutlook, CensusReport, Forecast
from jobs import __version__
from jobs.errors import AddressTakenError, JobError
from jobs.occupancy.printing import write_metrics_file
from jobs.services.listening import LOOPBACK
from jobs.services.metrics_server import serving
from jobs.stream.stream_metrics import StreamMetrics
from quota.config import QuotaConfig
from state.events import MetricsRow
from streaming.commit.sinks import BatchSummary
from streaming.listener import Progress
from streaming.operator.rows import by_kind
from tests.kits.plugin_kit import NOON_MS as PLUGIN_NOON_MS
from tests.kits.plugin_kit import state_report

NOON_MS = 1_790_000_000_000
HOUR_MS = 3_600_000


class Clock:
    def __init__(self) -> None:
        self.ms = NOON_MS

    def __call__(self) -> int:
        return self.ms


def row(principal: str, as_of_ms: int = NOON_MS, **values: Any) -> tuple[str, dict[str, Any]]:
    usual: dict[str, Any] = {
        "principal": principal,
        "window_end_ms": as_of_ms,
        "as_of_ms": as_of_ms,
        "rate": 2.5,
        "tokens": 10.0,
        "throttle_time_ms": 0,
        "throttle_time_avg_ms": None,
        "new_pids_window": 5,
        "quota": 100.0,
        "burst": 100.0,
        "quota_source": "default",
        "admitted_pids": 0,
        "refused_pids": 0,
        "owed_pids": 0,
        "late_pids": 0,
        "active_pids": 3,
        "layers": 1,
        "state_bytes": 100,
        "phase": "enforcing",
        "saturated": False,
    }
    assert set(values) <= set(usual)
    return "producer_id_metrics", msgspec.to_builtins(MetricsRow(**(usual | values)))


def throttle(
    principal: str, until_ms: int, action: str = "THROTTLE", at_ms: int = NOON_MS
) -> tuple[str, dict[str, Any]]:
    body = {"principal": principal, "action": action, "decided_at": at_ms}
    return "throttle_decisions", body | {"throttled_until": until_ms}


def batch(*rows: tuple[str, dict[str, Any]], quarantined: int = 0, commit_seconds: float = 0.25) -> BatchSummary:
    bodies = by_kind([*rows, *[("quarantined_events", {})] * quarantined])
    return BatchSummary(0, bodies, commit_seconds)


def scraped(collector: Collector) -> dict[Any, float]:
    """Return the values that Prometheus reads, by name and labels."""
    registry = CollectorRegistry()
    registry.register(collector)
    text = generate_latest(registry).decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    found = {(sample.name, *sorted(sample.labels.items())): sample.value for sample in samples}
    assert len(found) == len(samples), "the same series twice"
    return found


def user(name: str, label: str) -> tuple[str, tuple[str, str]]:
    return (name, ("user", label))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics(clock: Clock) -> StreamMetrics:
    return StreamMetrics(QuotaConfig(), top=2, clock_ms=clock)


def test_a_principal_has_the_metrics_of_the_kip_under_the_name_its_quota_has(metrics: StreamMetrics) -> None:
    metrics.observe(batch(row("User:alice", tokens=-2.0, throttle_time_avg_ms=36_000.0)))

    found = scraped(metrics)
    assert found[user("kafka_server_producerids_rate", "alice")] == 2.5
    assert found[user("kafka_server_producerids_tokens", "alice")] == -2.0
    assert found[user("kafka_server_producerids_throttle_time_avg_ms", "alice")] == 36_000
    assert found[user("pid_quota_throttle_time_seconds", "alice")] == 72
    assert found[user("pid_quota_window_pids", "alice")] == 5
    assert found[user("pid_quota_limit_pids", "alice")] == 100
    assert found[user("pid_quota_active_pids", "alice")] == 3


def test_tokens_come_back_and_the_throttle_time_passes_while_nothing_is_written(
    metrics: StreamMetrics, clock: Clock
) -> None:
    metrics.observe(batch(row("User:alice", tokens=-2.0)))

    clock.ms += HOUR_MS // 50

    found = scraped(metrics)
    assert found[user("kafka_server_producerids_tokens", "alice")] == pytest.approx(0)
    assert found[user("pid_quota_throttle_time_seconds", "alice")] == pytest.approx(0)
    clock.ms += HOUR_MS // 2
    assert scraped(metrics)[user("kafka_server_producerids_tokens", "alice")] == pytest.approx(50)


def test_tokens_come_back_up_to_the_burst_and_are_never_less_than_reported(
    metrics: StreamMetrics, clock: Clock
) -> None:
    metrics.observe(batch(row("User:pods", tokens=-2.0, burst=600.0), row("User:old", tokens=-2.0, burst=None)))

    # When our clock is behind the events', and hours later, as far as a window lets rows count.
    clock.ms -= 60_000
    behind = scraped(metrics)
    metrics.observe(batch(row("User:pods", NOON_MS + 1, tokens=550.0, burst=600.0)))
    clock.ms += HOUR_MS
    later = scraped(metrics)

    assert behind[user("kafka_server_producerids_tokens", "pods")] == -2
    assert (later[user("kafka_server_producerids_tokens", "pods")], later[user("pid_quota_burst_pids", "pods")]) == (
        600,
        600,
    )
    assert later[user("kafka_server_producerids_tokens", "old")] == pytest.approx(96.3, abs=0.1)


def test_only_the_first_have_series_of_their_own_and_the_rest_is_summed(metrics: StreamMetrics) -> None:
    metrics.observe(batch(*(row(f"User:u{number}", new_pids_window=number) for number in range(10))))

    found = scraped(metrics)
    by_user = {key[1][1]: value for key, value in found.items() if key[0] == "pid_quota_window_pids"}
    assert by_user == {"u9": 9, "u8": 8, "other": 28}
    assert found[user("kafka_server_producerids_tokens", "other")] == 80
    assert found[user("pid_quota_burst_pids", "other")] == 800
    assert found["pid_quota_principals",] == 10


def test_throttled_principals_come_first_and_unknown_is_always_shown(metrics: StreamMetrics) -> None:
    metrics.observe(
        batch(
            row("User:big", new_pids_window=1000),
            row("User:small", new_pids_window=1),
            row("unknown", new_pids_window=0, quota=None, burst=None, tokens=None),
            throttle("User:small", NOON_MS + 60_000),
        )
    )

    found = scraped(metrics)
    assert user("pid_quota_window_pids", "unknown") in found
    assert found[user("pid_quota_throttles_in_force", "small")] == 1
    assert found[user("pid_quota_window_pids", "other")] == 1000


def test_a_throttle_ends_by_its_time_or_by_its_release(metrics: StreamMetrics, clock: Clock) -> None:
    metrics.observe(batch(throttle("User:a", NOON_MS + 60_000), throttle("User:b", NOON_MS + 60_000)))
    metrics.observe(batch(row("User:a"), row("User:b"), throttle("User:b", NOON_MS, "RELEASE")))

    assert scraped(metrics)[user("pid_quota_throttles_in_force", "a")] == 1
    assert scraped(metrics)[user("pid_quota_throttles_in_force", "b")] == 0
    clock.ms += 60_000
    assert scraped(metrics)[user("pid_quota_throttles_in_force", "a")] == 0
    assert scraped(metrics)["pid_quota_decisions_total", ("action", "THROTTLE")] == 2


def test_a_principal_silent_for_a_window_has_no_series(metrics: StreamMetrics, clock: Clock) -> None:
    metrics.observe(batch(row("User:alice")))

    clock.ms += HOUR_MS

    assert not [key for key in scraped(metrics) if ("user", "alice") in key]


def test_an_older_row_never_replaces_a_newer_one_and_a_later_one_of_its_tick_does(metrics: StreamMetrics) -> None:
    for new_pids, as_of_ms in ((6, NOON_MS), (7, NOON_MS), (1, NOON_MS - 1)):
        metrics.observe(batch(row("User:alice", as_of_ms, new_pids_window=new_pids)))

    assert scraped(metrics)[user("pid_quota_window_pids", "alice")] == 7


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\rpids 7", "a\\rpids 7"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\x00b\x0bc\x0cd\x1ce\x85f", "a\\x00b\\x0bc\\x0cd\\x1ce\\x85f"),
        ("a\u2028b\u202ec", "a\\u2028b\\u202ec"),
        ("half \udc80", "half ?"),
        ("two\nlines", "two\\nlines"),
        ('CN="a",O=Acme\\, Inc., Zürich 中', 'CN="a",O=Acme\\, Inc., Zürich 中'),
        ("<script>", "<script>"),
        ("x" * 5000, "x" * 200),
        ("other", "other"),
        ("unknown", "unknown"),
    ],
)
def test_a_label_has_no_control_characters_and_other_names_stay(metrics: StreamMetrics, name: str, shown: str) -> None:
    metrics.observe(batch(row(f"User:{name}", new_pids_window=9), row("User:bob"), row("User:carol")))
    with serving(metrics, (LOOPBACK, 0)) as port:
        text = asked(port, "/metrics")[1]

    assert text.splitlines() == text.removesuffix("\n").split("\n")
    samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
    pids = [(each.labels["user"], each.value) for each in samples if each.name == "pid_quota_window_pids"]
    # Prometheus refuses an answer that has a series twice.
    assert len(dict(pids)) == len(pids)
    assert dict(pids) == ({"other": 14, "bob": 5} if name == "other" else {shown: 9, "bob": 5, "other": 5})


def test_counters_of_decisions_begin_at_0_so_that_prometheus_sees_the_first(metrics: StreamMetrics) -> None:
    assert [scraped(metrics)["pid_quota_decisions_total", ("action", each)] for each in ("THROTTLE", "RELEASE")] == [
        0,
        0,
    ]


def test_learning_and_saturated_principals_and_bad_records_are_counted(metrics: StreamMetrics) -> None:
    metrics.observe(batch(row("User:a", phase="learning"), row("User:b", saturated=True), quarantined=3))
    metrics.observe(batch(quarantined=2))

    found = scraped(metrics)
    assert found["pid_quota_learning_principals",] == 1
    assert found["pid_quota_saturated_principals",] == 1
    assert found["pid_quota_ledger_bytes",] == 200
    assert found["pid_quota_quarantined_records_total",] == 5
    assert found["pid_quota_commit_seconds",] == 0.25


def test_the_health_of_each_query_is_exported(metrics: StreamMetrics, clock: Clock) -> None:
    metrics.report(Progress("pid-quota", 7, 1.5, 1000, 250, 40, 9000))
    metrics.report(Progress("pid-quota", 8, 1.0, 500, 10, 41, 9001))

    query = ("query", "pid-quota")
    found = scraped(metrics)
    assert found["pid_quota_stream_batch_seconds", query] == 1.0
    assert found["pid_quota_stream_records_total", query] == 1500
    assert found["pid_quota_stream_records_behind", query] == 10
    assert found["pid_quota_state_bytes", query] == 9001
    assert found["pid_quota_stream_heard_timestamp_seconds", query] == NOON_MS / 1000
    clock.ms += 5000
    metrics.idle("pid-quota")
    found = scraped(metrics)
    assert found["pid_quota_stream_heard_timestamp_seconds", query] == NOON_MS / 1000 + 5
    assert found["pid_quota_stream_records_behind", query] == 0


def test_the_newest_state_of_each_plugin_is_exported(metrics: StreamMetrics) -> None:
    newest = state_report(events=7, dropped_events=2, waiting_pids=3, problem="no right", cluster_brokers=[1, 2])
    metrics.plugins.observe([state_report(events=1), newest, state_report(broker_id=2)])

    found = {key[0]: value for key, value in scraped(metrics).items() if ("broker", "1") in key}
    assert found == {
        "pid_quota_plugin_report_timestamp_seconds": PLUGIN_NOON_MS / 1000,
        "pid_quota_plugin_events_total": 7,
        "pid_quota_plugin_dropped_events_total": 2,
        "pid_quota_plugin_waiting_pids": 3,
        "pid_quota_plugin_problem": 1,
        "pid_quota_cluster_broker": 1,
    }


def test_a_broker_without_a_report_is_known_only_as_one_of_the_cluster(metrics: StreamMetrics) -> None:
    for brokers in ([1, 2, 3], [1, 2], []):
        metrics.plugins.observe([state_report(cluster_brokers=brokers)])

    found = [key for key in scraped(metrics) if key[0] in ("pid_quota_plugin_problem", "pid_quota_cluster_broker")]
    assert sorted(found) == [
        ("pid_quota_cluster_broker", ("broker", "1")),
        ("pid_quota_cluster_broker", ("broker", "2")),
        ("pid_quota_plugin_problem", ("broker", "1")),
    ]


def test_holds_are_exported_as_the_enforcing_thread_tells_them(metrics: StreamMetrics) -> None:
    assert scraped(metrics)["pid_quota_enforcing",] == 0

    metrics.holds.standing = lambda: Standing(
        held=2,
        would_hold=3,
        left_out={"the limit": 4, "a release is in force": 1},
        confirmations_missing=5,
        held_requests=60,
        let_in=7,
        has_other_writer=True,
        is_enforcing=True,
    )

    found = scraped(metrics)
    assert found["pid_quota_enforcing",] == 1
    assert (found["pid_quota_holds_in_force",], found["pid_quota_would_hold",]) == (2, 3)
    assert found["pid_quota_hold_left_out", ("reason", "the limit")] == 4
    assert found["pid_quota_hold_left_out", ("reason", "a release is in force")] == 1
    assert found["pid_quota_hold_confirmations_missing",] == 5
    assert (found["pid_quota_held_requests_total",], found["pid_quota_let_in_total",]) == (60, 7)
    assert found["pid_quota_other_writer",] == 1


def outlook(broker_id: int, limit_reached_at: datetime | None) -> BrokerOutlook:
    nothing: dict[str, Any] = dict.fromkeys(Forecast.__dataclass_fields__, 0)
    forecast = Forecast(**nothing | {"limit_reached_at": limit_reached_at})
    numbers: dict[str, Any] = dict.fromkeys(BrokerOutlook.__dataclass_fields__, 0)
    return BrokerOutlook(**numbers | {"broker_id": broker_id, "held_pids": 7, "forecasts": (forecast,)})


def test_a_census_leaves_a_file_that_says_how_long_brokers_have_left(tmp_path: Path) -> None:
    now = datetime(2026, 1, 15, 12, tzinfo=timezone.utc)
    hour = timedelta(hours=1)
    brokers = (outlook(1, now + 30 * hour), outlook(2, None), outlook(3, now - hour))
    report = CensusReport(Mock(TakenCensus), (), (), brokers, (), None)

    write_metrics_file(tmp_path / "pid-quota.prom", report, now)

    families = text_string_to_metric_families((tmp_path / "pid-quota.prom").read_text())
    found = {(sample.name, sample.labels["broker"]): sample.value for each in families for sample in each.samples}
    left = {broker: value for (name, broker), value in found.items() if name.endswith("_seconds_to_limit")}
    assert left == {"1": 108_000, "3": 0}
    assert found["pid_quota_occupancy_held_pids", "2"] == 7
    with pytest.raises(JobError, match="textfile"):
        write_metrics_file(tmp_path / "no" / "folder.prom", report, now)


def test_metrics_are_served_on_loopback_until_the_end(
    metrics: StreamMetrics, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics.observe(batch(row("User:alice")))

    with serving(metrics, (LOOPBACK, 0)) as port:
        text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30).read().decode()
        taken = pytest.raises(
            AddressTakenError, match=f"127.0.0.1 port {port}: .*Choose another address with --metrics"
        )
        with taken, serving(metrics, (LOOPBACK, port)):
            pass

    assert 'kafka_server_producerids_rate{user="alice"} 2.5' in text
    assert "process_resident_memory_bytes" in text
    assert capsys.readouterr().err == f"metrics at http://127.0.0.1:{port}/metrics\n"
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30)


def asked(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_the_port_answers_probes_with_the_reason(metrics: StreamMetrics) -> None:
    why = ["waits for the lock"]
    with serving(metrics, (LOOPBACK, 0), unready=lambda: why[0]) as port:
        assert asked(port, "/healthz") == (200, "ok\n")
        assert asked(port, "/readyz") == (503, "waits for the lock\n")
        why[0] = ""
        assert asked(port, "/readyz") == (200, "ok\n")
        assert (
            f'pid_quota_build_info{{python="{platform.python_version()}",version="{__version__}"}} 1.0'
            in asked(port, "/metrics")[1]
        )


def test_a_stream_is_ready_while_batches_end(metrics: StreamMetrics, clock: Clock) -> None:
    assert metrics.unready() == "no micro-batch has ended yet"
    metrics.report(Progress("pid-quota-reports", 0, 1.0, 0, 0, 0, 0))
    assert metrics.unready() == "no micro-batch has ended yet"

    metrics.report(Progress("pid-quota", 0, 1.0, 500, 0, 2, 4096))
    assert metrics.unready() == ""

    clock.ms += 301_000
    assert metrics.unready() == "no micro-batch has ended for 301 s"
    metrics.idle("pid-quota")
    assert metrics.unready() == ""


def test_the_times_of_batches_are_a_histogram_by_query(metrics: StreamMetrics) -> None:
    for seconds in (0.5, 1.5, 1000.0):
        metrics.report(Progress("pid-quota", 0, seconds, 0, 0, 0, 0))

    found = scraped(metrics)
    name, query = "pid_quota_stream_batch_duration_seconds", ("query", "pid-quota")
    up_to = {key[1][1]: value for key, value in found.items() if key[0] == f"{name}_bucket"}
    assert (up_to["0.5"], up_to["1.0"], up_to["2.0"], up_to["300.0"], up_to["+Inf"]) == (1, 1, 2, 2, 3)
    assert (found[f"{name}_sum", query], found[f"{name}_count", query]) == (1002.0, 3)
