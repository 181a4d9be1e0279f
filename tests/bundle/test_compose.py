"""`compose.yaml` without a container engine: it loads, its files exist, and the CLI accepts its commands."""

import re
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from broker.kafka.config import KafkaConfig
from broker.kafka.java_properties import read_properties
from jobs.cli import load_command
from jvm.broker_jar import JAR_NAME
from tests.kits.compose_kit import load_compose
from wire.holds import HOLD_AUTHORIZER
from wire.plugin_reports import REPORTER_CLASS

ROOT = Path(__file__).parents[2]
COMPOSE = load_compose()
SERVICES = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if service["image"] == "pid-quota:demo"]
ROLES = {"stream", "operator"}
USERS = {"admin", "alice", "mallory", *ROLES}
CLIENTS = ROOT / "docs/compose/clients"


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
    if called in ("tables", "topics"):
        command = command.commands[arguments.pop(0)]

    assert command.make_context(called, arguments).params


def test_all_services_of_ours_are_there() -> None:
    of_roles = {"stream", "doctor", "console"}
    assert set(OURS) == {"broker-jar", "topics", "tables", "quotas", "clients"} | of_roles


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
    for file in (*CLIENTS.iterdir(), ROOT / "docs/compose/kafka/server.properties"):
        text = file.read_text(encoding="utf-8")
        assert set(re.findall(r"(?:password|user_\w+)=\"?([^\"\s]+)", text)) <= {f"{user}-secret" for user in USERS}, (
            file
        )


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
    command = SERVICES["stream"]["command"]
    port = command[command.index("--metrics-port") + 1]
    assert f"http://127.0.0.1:{port}/readyz" in SERVICES["stream"]["healthcheck"]["test"][-1]


def test_the_stream_enforces_unless_a_variable_says_otherwise() -> None:
    assert "--enforce" in SERVICES["stream"]["command"]
    off = load_compose(PID_QUOTA_ENFORCE="--no-enforce")["services"]["stream"]["command"]
    assert "--no-enforce" in off
    assert "--enforce" not in off


def test_the_stream_s_user_may_write_holds() -> None:
    assert server_properties()["pid.quota.writers"] == "User:stream"


def test_the_users_of_the_clients_are_those_of_the_broker() -> None:
    users = dict(
        re.findall(r'user_(\w+)="([^"]+)"', server_properties()["listener.name.clients.plain.sasl.jaas.config"])
    )
    assert users == {user: password_of(user) for user in USERS}
    assert {file.stem for file in CLIENTS.iterdir()} == USERS


def password_of(user: str) -> str:
    settings = KafkaConfig.load("kafka:9092", CLIENTS / f"{user}.properties").client()
    assert settings["sasl.username"] == user
    return settings["sasl.password"]


def test_each_role_has_a_user_and_sees_no_other_s_password() -> None:
    files = {name: [each for each in sources(service) if "clients/" in each] for name, service in SERVICES.items()}
    seen = {name: {Path(each).stem for each in found} for name, found in files.items() if found}
    of_roles = {role: {role} for role in ROLES - {"operator"}} | {"doctor": {"operator"}}
    assert seen == of_roles | {"topics": {"admin"}, "orders": {"admin"}, "clients": {"alice", "mallory"}}


def test_rights_are_granted_as_readme_grants_them() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^ *pid-quota (topics create .*)$", readme, re.MULTILINE)
    assert SERVICES["topics"]["command"] == line.replace(" admin.properties", " /config/admin.properties").split()


def test_the_broker_denies_what_no_acl_allows_but_to_itself_and_the_admin() -> None:
    server = server_properties()
    assert server["authorizer.class.name"] == HOLD_AUTHORIZER
    assert "allow.everyone.if.no.acl.found" not in server
    assert server["super.users"] == "User:admin;User:ANONYMOUS"
    # Whoever needs no password reaches the broker from inside its container only.
    without_password = re.findall(r"(\w+):PLAINTEXT", server["listener.security.protocol.map"])
    listeners = dict(each.split("://") for each in server["listeners"].split(","))
    assert all(listeners[name].startswith("localhost:") for name in without_password)


def test_what_kafka_and_prometheus_store_is_in_volumes() -> None:
    assert place("kafka", server_properties()["log.dirs"]) == ("kafka-data", PurePosixPath())
    # Where Prometheus's image keeps its data.
    assert place("prometheus", "/prometheus") == ("prometheus-data", PurePosixPath())


def server_properties() -> dict[str, str]:
    lines = (ROOT / "docs/compose/kafka/server.properties").read_text(encoding="utf-8").splitlines()
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
