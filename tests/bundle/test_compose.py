"""`compose.yaml` without a container engine: it loads, its files exist, and the CLI accepts its commands."""

import re
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from broker.kafka.config import KafkaConfig
from broker.kafka.java_properties import read_properties
from jobs.cli import load_command
from jobs.quotas.file import read_quotas
from jvm.broker_jar import JAR_NAME
from quota.allowance import Allowance
from tests.kits.compose_kit import load_compose
from tests.kits.page_kit import accepted
from wire.holds import HOLD_AUTHORIZER
from wire.plugin_reports import REPORTER_CLASS

ROOT = Path(__file__).parents[2]
COMPOSE = load_compose()
SERVICES = COMPOSE["services"]
OURS = [name for name, each in SERVICES.items() if each["image"] == "pid-quota:demo" and "entrypoint" not in each]
USERS = {"alice", "mallory", "pid-quota"}
FILES = ROOT / "docs/compose"


def sources(service: dict[str, Any]) -> list[str]:
    return [volume.split(":")[0] for volume in service.get("volumes", [])]


def dockerfile_lines(word: str) -> list[list[str]]:
    lines = (FILES / "Dockerfile").read_text(encoding="utf-8").splitlines()
    return [line.split()[1:] for line in lines if line.startswith(f"{word} ")]


@pytest.mark.parametrize("name", SERVICES)
def test_every_file_and_volume_that_a_service_mounts_exists(name: str) -> None:
    for source in sources(SERVICES[name]):
        assert (ROOT / source).exists() if source.startswith(".") else source in COMPOSE["volumes"]


@pytest.mark.parametrize("name", OURS)
def test_the_cli_has_the_options_and_variables_of_a_service(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    service = SERVICES[name]
    variables = service.get("environment", {})
    values, others = accepted(service["command"], variables, ("/config/",), tmp_path / "file", monkeypatch)
    assert values
    # Other commands in this container have an option for those.
    assert others <= {"PID_QUOTA_TABLES", "PID_QUOTA_CONSOLE_TOKEN"}


def test_images_are_pinned() -> None:
    images = [service["image"] for service in SERVICES.values() if "build" not in service]
    images += [line[0] for line in dockerfile_lines("FROM")]
    for image in images:
        version = image.partition(":")[2]
        assert version.split("-")[0].count(".") == 2, image


def test_files_that_the_image_copies_exist() -> None:
    for *copied, _target in dockerfile_lines("COPY"):
        for source in copied:
            assert (ROOT / source).exists(), source


def test_no_port_is_published_but_to_this_machine() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"pid-quota": ["127.0.0.1:8080:8080"], "grafana": ["127.0.0.1:3000:3000"]}
    assert not any(service.get("network_mode") for service in SERVICES.values())


def test_prometheus_and_the_probe_ask_the_port_of_run() -> None:
    config = yaml.safe_load((FILES / "prometheus.yml").read_text(encoding="utf-8"))
    asked = {target for job in config["scrape_configs"] for each in job["static_configs"] for target in each["targets"]}
    (port,) = [each.default for each in load_command("run").params if each.name == "metrics"]
    assert asked == {f"pid-quota:{port}"}
    assert f"http://127.0.0.1:{port}/readyz" in SERVICES["pid-quota"]["healthcheck"]["test"][-1]


def test_only_the_demo_s_passwords_are_in_the_files() -> None:
    for file in (*FILES.glob("*.properties"), FILES / "kafka/server.properties"):
        text = file.read_text(encoding="utf-8")
        assert set(re.findall(r"(?:password|user_[\w-]+)=\"?([^\"\s]+)", text)) <= {
            f"{user}-secret" for user in USERS
        }, file


def test_a_service_waits_until_another_is_ready_or_done() -> None:
    for name, service in SERVICES.items():
        for other, how in service.get("depends_on", {}).items():
            if how["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[other], (name, other)
            else:
                assert how["condition"] == "service_completed_successfully", (name, other)


def test_run_enforces_unless_a_variable_says_otherwise() -> None:
    assert SERVICES["pid-quota"]["environment"]["PID_QUOTA_ENFORCE"] == "true"
    off = load_compose(PID_QUOTA_ENFORCE="false")["services"]["pid-quota"]["environment"]
    assert off["PID_QUOTA_ENFORCE"] == "false"


def test_the_user_of_run_may_write_holds() -> None:
    assert server_properties()["pid.quota.writers"] == "User:pid-quota"


def test_the_quotas_can_be_read() -> None:
    assert read_quotas(FILES / "quotas.yaml", lambda _: None) == {
        None: Allowance.parse({"producer_ids_rate": 20, "producer_ids_burst": None})
    }


def test_the_users_of_the_clients_are_those_of_the_broker() -> None:
    users = dict(
        re.findall(r'user_([\w-]+)="([^"]+)"', server_properties()["listener.name.clients.plain.sasl.jaas.config"])
    )
    assert users == {user: password_of(user) for user in USERS}
    assert {file.stem for file in FILES.glob("*.properties")} == USERS


def password_of(user: str) -> str:
    settings = KafkaConfig.load("kafka:9092", FILES / f"{user}.properties").client()
    assert settings["sasl.username"] == user
    return settings["sasl.password"]


def test_no_service_sees_another_s_password() -> None:
    files = {
        name: {Path(each).stem for each in sources(service) if each.endswith(".properties")} & USERS
        for name, service in SERVICES.items()
    }
    assert {name: found for name, found in files.items() if found} == {
        "pid-quota": {"pid-quota"},
        "clients": {"alice", "mallory"},
    }


def test_only_the_broker_itself_is_a_super_user() -> None:
    server = server_properties()
    assert server["authorizer.class.name"] == HOLD_AUTHORIZER
    assert server["super.users"] == "User:ANONYMOUS"
    # Whoever needs no password reaches the broker from inside its container only.
    without_password = re.findall(r"(\w+):PLAINTEXT", server["listener.security.protocol.map"])
    listeners = dict(each.split("://") for each in server["listeners"].split(","))
    assert all(listeners[name].startswith("localhost:") for name in without_password)


def test_what_kafka_and_prometheus_store_is_in_volumes() -> None:
    assert place("kafka", server_properties()["log.dirs"]) == ("kafka-data", PurePosixPath())
    # Where Prometheus's image keeps its data.
    assert place("prometheus", "/prometheus") == ("prometheus-data", PurePosixPath())


def server_properties() -> dict[str, str]:
    lines = (FILES / "kafka/server.properties").read_text(encoding="utf-8").splitlines()
    return dict(read_properties(lines))


def place(service: str, path: str) -> tuple[str, PurePosixPath]:
    """The volume that a path of a service is in, and the path in there."""
    for volume, folder, *_ in (each.split(":") for each in SERVICES[service]["volumes"]):
        if PurePosixPath(path).is_relative_to(folder):
            return volume, PurePosixPath(path).relative_to(folder)
    msg = f"{service} has no volume for {path}"
    raise AssertionError(msg)


def test_the_broker_starts_with_the_jar_on_its_class_path() -> None:
    _, folder = SERVICES["broker-jar"]["command"]
    jar = SERVICES["kafka"]["environment"]["CLASSPATH"]
    assert place("kafka", jar) == place("broker-jar", f"{folder}/{JAR_NAME}")
    assert SERVICES["kafka"]["depends_on"] == {"broker-jar": {"condition": "service_completed_successfully"}}
    assert server_properties()["metric.reporters"].split(",")[1:] == [REPORTER_CLASS]


def test_the_image_holds_the_built_jar_and_lets_its_user_write_the_volume() -> None:
    (step,) = [line for line in dockerfile_lines("RUN") if line[:2] == ["pid-quota", "broker-jar"]]
    folder = SERVICES["broker-jar"]["command"][1]
    assert step[2] == folder
    assert folder in step[step.index("chown") :]
