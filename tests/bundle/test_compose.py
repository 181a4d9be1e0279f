"""`compose.yaml` without a container engine: it loads, its files exist, and the CLI accepts its commands."""

from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from jobs.cli import load_command
from jvm.broker_jar import JAR_NAME
from wire.broker_lines import REPORTER_CLASS

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if service["image"] == "pid-quota:demo"]
DEMO_PASSWORDS = {"alice-secret", "mallory-secret", "pidquota-secret"}


def sources(service: dict[str, Any]) -> list[str]:
    return [volume.split(":")[0] for volume in service.get("volumes", [])]


def dockerfile_lines(word: str) -> list[list[str]]:
    lines = (ROOT / "docs/compose/Dockerfile").read_text(encoding="utf-8").splitlines()
    return [line.split()[1:] for line in lines if line.startswith(f"{word} ")]


@pytest.mark.parametrize("name", SERVICES)
def test_every_file_and_volume_that_a_service_mounts_exists(name: str) -> None:
    for source in sources(SERVICES[name]):
        assert (ROOT / source).exists() if source.startswith(".") else source in COMPOSE["volumes"]


@pytest.mark.parametrize("name", OURS)
def test_a_command_of_ours_has_exactly_the_options_of_the_cli(name: str) -> None:
    called, *arguments = SERVICES[name]["command"]
    needs_tables = called in ("stream", "quotas", "tables") and "--tables" not in arguments
    arguments += ["--tables", "/data/tables"] if needs_tables else []
    command = load_command(called)
    if called == "tables":
        command = command.commands[arguments.pop(0)]

    assert command.make_context(called, arguments).params


def test_all_services_of_ours_are_there() -> None:
    assert set(OURS) == {"broker-jar", "tables", "quotas", "tap", "stream", "enforcer", "console", "clients"}


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
    assert published == {"console": ["127.0.0.1:8080:8080"], "grafana": ["127.0.0.1:3000:3000"]}
    assert not any(service.get("network_mode") for service in SERVICES.values())


def test_prometheus_asks_where_services_serve_metrics() -> None:
    config = yaml.safe_load((ROOT / "docs/compose/prometheus.yml").read_text(encoding="utf-8"))
    asked = {target for job in config["scrape_configs"] for each in job["static_configs"] for target in each["targets"]}
    commands = {name: SERVICES[name]["command"] for name in OURS}
    served = {
        f"{name}:{command[command.index('--metrics-port') + 1]}"
        for name, command in commands.items()
        if "--metrics-port" in command
    }
    assert asked == served


def test_only_the_demo_s_passwords_are_in_the_files() -> None:
    files = [*(ROOT / "docs/compose/clients").iterdir(), ROOT / "docs/compose/kafka/server.properties"]
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            if "assword=" in line or "user_" in line:
                assert any(password in line for password in DEMO_PASSWORDS), line


def test_a_dependency_is_a_service() -> None:
    for service in SERVICES.values():
        assert set(service.get("depends_on", {})) <= set(SERVICES)


def test_a_service_waits_until_another_is_ready_or_done() -> None:
    for name, service in SERVICES.items():
        for other, how in service.get("depends_on", {}).items():
            if how["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[other], (name, other)
            else:
                assert how["condition"] == "service_completed_successfully", (name, other)


def test_a_probe_asks_the_port_that_its_service_serves() -> None:
    for name in ("tap", "stream", "enforcer"):
        command = SERVICES[name]["command"]
        port = command[command.index("--metrics-port") + 1]
        assert f"http://127.0.0.1:{port}/readyz" in SERVICES[name]["healthcheck"]["test"][-1]


def test_the_users_of_the_clients_are_those_of_the_broker() -> None:
    server = (ROOT / "docs/compose/kafka/server.properties").read_text(encoding="utf-8")
    for file in (ROOT / "docs/compose/clients").iterdir():
        settings = dict(line.split("=", 1) for line in file.read_text(encoding="utf-8").splitlines() if "=" in line)
        assert f'user_{settings["sasl.username"]}="{settings["sasl.password"]}"' in server


def server_properties() -> dict[str, str]:
    lines = (ROOT / "docs/compose/kafka/server.properties").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


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


def test_the_class_writes_where_the_tap_reads() -> None:
    command = SERVICES["tap"]["command"]
    read = command[command.index("--log-file") + 1]
    assert place("kafka", server_properties()["pid.quota.file"]) == place("tap", read)
    assert server_properties()["node.id"] == command[command.index("--broker-id") + 1]
