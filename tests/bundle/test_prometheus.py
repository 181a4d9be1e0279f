"""The metrics, the alert rules and the dashboard, checked by Prometheus' own server and `promtool`.

Debian's package `prometheus` has both; PID_QUOTA_PROMETHEUS names a folder with them otherwise.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from prometheus_client.registry import Collector

from broker.enforcement.enforcer import Standing
from jobs.occupancy.printing import occupancy_registry
from jobs.run.own_metrics import RunMetrics
from jobs.services.metrics_server import serving
from jobs.stream.stream_metrics import StreamMetrics
from quota.config import QuotaConfig
from streaming.commit.sinks import BatchSummary
from streaming.listener import Progress
from streaming.operator.rows import by_kind
from wire.plugin_reports import AliveReport

DOCS = Path(__file__).parents[2] / "docs"
RULES = DOCS / "alerts.yml"
DASHBOARD = json.loads((DOCS / "grafana/pid-quota.json").read_text(encoding="utf-8"))

KAFKA_S_OWN_NAME = "kafka_server_producerids_throttle_time_avg_ms metric names should not contain abbreviated units"
"""The one thing promtool says: KIP-936 counts in milliseconds, and the name says so."""


def binary(name: str) -> str:
    found = shutil.which(name, path=os.environ.get("PID_QUOTA_PROMETHEUS") or None)
    if found is None:
        pytest.skip(f"{name} is not installed (Debian: apt-get install prometheus)")
    return found


def promtool(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [binary("promtool"), *arguments]
    return subprocess.run(command, check=False, input=text, capture_output=True, text=True, timeout=120)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def row(principal: str, **values: object) -> tuple[str, dict[str, object]]:
    body = {
        "principal": principal,
        "as_of": now_ms(),
        "rate": 2.5,
        "tokens": -1.0,
        "throttle_time_avg_ms": 36_000.0,
        "new_pids_window": 7,
        "quota": 100.0,
        "burst": None,
        "active_pids": 3,
        "state_bytes": 100,
        "phase": "enforcing",
        "saturated": False,
    }
    return "producer_id_metrics", body | values


def alive(timestamp_ms: int) -> AliveReport:
    """The report of broker 1 of a cluster of two."""
    more: dict[str, Any] = {"run": "ff", "plugin_version": "0.1.0", "kafka_version": "4.3.1", "events": 4}
    more |= {"repeat_ms": 10_000, "window_ms": 3_600_000, "cluster_brokers": [1, 2]}
    return AliveReport(timestamp_ms, 1, "c", **more)


def of_run() -> RunMetrics:
    """The metrics of two parts and a task, as `pid-quota run` has them."""
    parts: Any = [SimpleNamespace(name=name, is_up=True, restarts=0) for name in ("stream", "console")]
    tasks: Any = [SimpleNamespace(name="maintain", done_at_s=1.0, failures=0)]
    return RunMetrics(parts, tasks, Mock(dropped=0))


def collectors() -> dict[str, Collector]:
    """Of each process, with something to tell in every family."""
    stream = StreamMetrics(QuotaConfig())
    until = {"principal": "User:mallory", "action": "THROTTLE", "decided_at": now_ms()}
    throttle = until | {"throttled_until": now_ms() + 600_000}
    rows = [row("User:mallory"), row('User:"<script>\\\n'), row("unknown"), ("throttle_decisions", throttle)]
    stream.observe(BatchSummary(0, by_kind([*rows, ("quarantined_events", {})]), 0.1))
    stream.report(Progress("pid-quota", 3, 1.5, 500, 0, 2, 4096))
    # However long the test takes, this plugin is alive.
    stream.plugins.observe([alive(now_ms() + 3_600_000)])
    standing = Standing(held=1, left_out={"why": 1}, is_enforcing=True)
    stream.holds.standing = lambda: standing
    return {
        "run": of_run(),
        "stream": stream,
        "occupancy": occupancy_registry({1: 30.0}, {1: 12, 2: 7}),
    }


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, int]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(serving(each, ("127.0.0.1", 0))) for name, each in collectors().items()}


def get(port: int, path: str) -> str:
    content: bytes = urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=30).read()
    return content.decode()


class Prometheus:
    """A server of its own, that asks these ports and keeps our rules."""

    def __init__(self, folder: Path, ports: dict[str, int]) -> None:
        jobs = [
            {"job_name": name, "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]} for name, port in ports.items()
        ]
        times = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
        config = {"global": times, "rule_files": [str(RULES)], "scrape_configs": jobs}
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self._log = folder / "log"
        command = [binary("prometheus"), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, f"--web.listen-address=127.0.0.1:{self._port}"], stdout=log, stderr=log
            )

    def ask(self, path: str, **parameters: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(get(self._port, f"api/v1/{path}?{urllib.parse.urlencode(parameters)}"))
        return dict(answer["data"])

    def query(self, expression: str) -> list[dict[str, Any]]:
        return list(self.ask("query", query=expression)["result"])

    def wait_for(self, expression: str) -> list[dict[str, Any]]:
        give_up_at = time.monotonic() + 120
        while True:
            assert self.process.poll() is None, self._log.read_text()
            assert time.monotonic() < give_up_at, f"{expression}: {self._log.read_text()}"
            try:
                found = self.query(expression)
            except OSError:
                found = []
            if found:
                return found
            time.sleep(0.2)

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()


@pytest.fixture(scope="module")
def prometheus(ports: dict[str, int], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    running = Prometheus(tmp_path_factory.mktemp("prometheus"), ports)
    try:
        running.wait_for("count(up == 1) == 3")
        yield running
    finally:
        running.end()


def test_prometheus_reads_the_metrics_of_each_process(prometheus: Prometheus) -> None:
    (mallory,) = prometheus.wait_for('kafka_server_producerids_rate{user="mallory"}')
    assert mallory["value"][1] == "2.5"
    (evil,) = prometheus.wait_for('pid_quota_window_pids{user!="mallory",user!="unknown"}')
    assert evil["metric"]["user"] == '"<script>\\\\n'
    (plugin,) = prometheus.wait_for("pid_quota_plugin_events_total")
    assert (plugin["metric"]["broker"], plugin["value"][1]) == ("1", "4")
    assert prometheus.wait_for("pid_quota_holds_in_force == 1")


def test_promtool_finds_nothing_but_the_name_that_the_kip_gives(ports: dict[str, int]) -> None:
    for port in ports.values():
        checked = promtool("check", "metrics", text=get(port, "metrics"))
        said = [line for line in (checked.stdout + checked.stderr).splitlines() if line]
        assert [line for line in said if line != KAFKA_S_OWN_NAME] == []


def test_the_alert_rules_are_valid_and_fire_when_they_should() -> None:
    checked = promtool("check", "rules", str(RULES))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    tested = promtool("test", "rules", str(DOCS / "alerts_test.yml"))
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_the_configuration_of_compose_is_valid(tmp_path: Path) -> None:
    text = (DOCS / "compose" / "prometheus.yml").read_text(encoding="utf-8")
    # Where the container finds the rules is another place here.
    there = re.sub(r"/etc/prometheus/alerts\.yml", str(RULES), text)
    assert there != text
    (tmp_path / "prometheus.yml").write_text(there, encoding="utf-8")
    checked = promtool("check", "config", str(tmp_path / "prometheus.yml"))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_alert_has_a_case_in_which_it_fires() -> None:
    rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"][0]["rules"]
    cases = yaml.safe_load((DOCS / "alerts_test.yml").read_text(encoding="utf-8"))["tests"]
    fired = {test["alertname"] for case in cases for test in case["alert_rule_test"] if test["exp_alerts"]}
    assert fired == {rule["alert"] for rule in rules}


def test_prometheus_takes_the_rules_and_sees_the_broker_that_nobody_watches(prometheus: Prometheus) -> None:
    rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
    assert len(rules) == len(yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"][0]["rules"])
    pending = prometheus.wait_for('ALERTS{alertname="PidQuotaBrokerUnwatched"}')
    assert [alert["metric"]["broker"] for alert in pending] == ["2"]


def metric_names(text: str) -> set[str]:
    return set(re.findall(r"\b(?:pid_quota|kafka_server)_\w+", text))


def expressions() -> list[str]:
    targets = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]
    return [expression.replace("$user", ".*") for expression in targets]


@pytest.fixture(scope="module")
def served(ports: dict[str, int]) -> set[str]:
    return set().union(*(metric_names(get(port, "metrics")) for port in ports.values()))


def test_rules_dashboard_and_docs_name_only_metrics_that_exist(served: set[str]) -> None:
    for text in (RULES.read_text(encoding="utf-8"), " ".join(expressions())):
        assert metric_names(text) - served == set()


def test_the_docs_list_every_metric(served: set[str]) -> None:
    listed = metric_names((DOCS / "monitoring.md").read_text(encoding="utf-8"))
    assert listed == served


@pytest.mark.parametrize("expression", expressions())
def test_prometheus_understands_each_panel(prometheus: Prometheus, expression: str) -> None:
    assert isinstance(prometheus.query(expression), list)
