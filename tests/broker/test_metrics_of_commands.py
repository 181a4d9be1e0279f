"""Scrapes the enforcer as a process, and receives its webhook."""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.local.local_broker import LocalBroker
from tables.store.path_tables import create_missing
from tests.kits.broker_kit import wait_until
from tests.kits.enforce_kit import decide
from tests.kits.webhook_kit import Endpoint

KEY = "a key of the test"


@contextmanager
def command(log: Path, *arguments: str) -> Iterator[int]:
    """Run a command with metrics; yields their port. It ends in good order."""
    environment = {**os.environ, "PID_QUOTA_WEBHOOK_SECRET": KEY}
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "jobs", *arguments, "--metrics-port", "0"],
            stdout=output,
            stderr=output,
            env=environment,
        )
    try:
        wait_until(lambda: process.poll() is not None or "metrics at" in log.read_text(), "metrics are served")
        found = re.search(r"metrics at http://127\.0\.0\.1:(\d+)/metrics", log.read_text())
        assert found, log.read_text()
        yield int(found[1])
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0, log.read_text()
    assert KEY not in log.read_text()


def metrics(port: int) -> dict[tuple[str, ...], float]:
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30).read().decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {(sample.name, *sample.labels.values()): sample.value for sample in samples}


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    running = Endpoint()
    yield running
    running.close()


def test_an_enforcer_tells_prometheus_and_its_webhook_what_it_does(
    broker: LocalBroker, tmp_path: Path, endpoint: Endpoint
) -> None:
    tables = tmp_path / "tables"
    create_missing(str(tables))
    options = ["--apply", "--tables", str(tables), "--bootstrap-servers", broker.admin_servers]
    decide(tables, "User:mallory", seconds=600)

    with command(tmp_path / "log", "enforce", *options, "--webhook", endpoint.url) as port:
        leases = ("pid_quota_enforcer_leases", "in_force")
        wait_until(lambda: metrics(port)[leases] == 1, "a lease is in force")
        told = metrics(port)
        assert told["pid_quota_enforcer_active",] == 1
        assert told["pid_quota_enforcer_actions_total", "throttled"] == 1
        wait_until(lambda: [event["event"] for event in endpoint.events()] == ["THROTTLE"], "the webhook heard of it")

    # Its stop restores the quota, and that is told before it goes.
    assert [(event["event"], event["principal"]) for event in endpoint.events()] == [
        ("THROTTLE", "User:mallory"),
        ("RELEASE", "User:mallory"),
    ]
