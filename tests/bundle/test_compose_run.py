"""`compose.yaml`, built and run in containers: from mallory's producers to the hold on her and the console.

The first run makes a Debian beside the jars; each fetches what the Dockerfile installs.
"""

import base64
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kits.broker_kit import wait_until
from tests.kits.compose_kit import ROOT, STAND_INS, Compose, Podman, load_compose, make_base, missing

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=f"no {missing()}: apt-get install podman runc debootstrap, as root"),
]

SERVICES = load_compose()["services"]
NO_IMAGE = {"grafana"}
FLOW = ("broker-jar", "kafka", "pid-quota", "clients", "prometheus")


@pytest.fixture(scope="module")
def podman(jars: Path) -> Iterator[Podman]:
    # Podman takes no run root of more than 50 characters, so pytest's folders are too long.
    folder = Path(tempfile.mkdtemp(prefix="podman-"))
    running = Podman(folder)
    try:
        make_base(running, folder, jars, SERVICES["kafka"]["image"].rpartition(":")[2])
        running.build("pid-quota:demo", ROOT / "docs/compose/Dockerfile", ROOT)
        for name in ("kafka", "prometheus"):
            running.build(SERVICES[name]["image"], STAND_INS / name / "Containerfile", STAND_INS / name)
        yield running
    finally:
        running.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def compose(podman: Podman) -> Compose:
    """All services but Grafana, for which there is no package."""
    running = Compose(podman, SERVICES)
    running.up(*FLOW)
    return running


def asked(compose: Compose, url: str, **headers: str) -> Any:
    code = "import json, sys, urllib.request as u\n"
    code += "print(u.urlopen(u.Request(sys.argv[1], headers=json.loads(sys.argv[2]))).read().decode())"
    return json.loads(compose.exec("pid-quota", "python", "-c", code, url, json.dumps(headers)))


def rows(compose: Compose, select: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(compose.exec("pid-quota", "pid-quota", "sql", "--json", select))
    return found


def test_the_flow_has_all_services(compose: Compose) -> None:
    assert set(FLOW) | NO_IMAGE == set(SERVICES)


@pytest.mark.parametrize("name", [name for name in FLOW if "healthcheck" in SERVICES[name]])
def test_each_service_becomes_healthy(compose: Compose, name: str) -> None:
    compose.healthy(name)


def test_mallory_is_throttled_on_the_broker_and_alice_is_not(compose: Compose) -> None:
    held = "SELECT principal, hold, confirmed_brokers FROM holds_now WHERE confirmed_brokers = 1"
    wait_until(lambda: bool(rows(compose, held)), "the broker holds mallory")
    assert rows(compose, held) == [{"principal": "User:mallory", "hold": "held", "confirmed_brokers": 1}]


def test_the_console_shows_it_to_who_has_the_token(compose: Compose) -> None:
    token = SERVICES["pid-quota"]["environment"]["PID_QUOTA_CONSOLE_TOKEN"]
    basic = base64.b64encode(f":{token}".encode()).decode()
    shown = asked(compose, "http://localhost:8080/api/overview", Authorization=f"Basic {basic}")
    assert "User:mallory" in json.dumps(shown)


def test_prometheus_scrapes_run(compose: Compose) -> None:
    def up() -> set[str]:
        found = asked(compose, "http://localhost:9090/api/v1/query?query=up==1")["data"]["result"]
        return {each["metric"]["job"] for each in found}

    wait_until(lambda: up() == {"pid-quota"}, "it is up")


def test_the_doctor_finds_nothing_wrong(compose: Compose) -> None:
    assert "\n0 checks failed" in compose.exec("pid-quota", "pid-quota", "doctor")


def test_the_user_of_run_may_release_mallory(compose: Compose) -> None:
    assert "confirmed by broker 1" in compose.exec("pid-quota", "pid-quota", "release", "User:mallory")


def test_kafka_and_prometheus_keep_their_data_in_new_containers(compose: Compose) -> None:
    earlier = f"http://localhost:9090/api/v1/query?query=up&time={time.time()}"
    for name in ("kafka", "prometheus"):
        compose.replace(name)
    tool = ("/opt/kafka/bin/kafka-topics.sh", "--bootstrap-server", "localhost:9094", "--list")
    assert {"orders", "produce-events"} <= set(compose.exec("kafka", *tool).split())
    assert asked(compose, earlier)["data"]["result"]
