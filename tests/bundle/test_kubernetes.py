"""The manifests of docs/kubernetes: checked against the published schemas and for dangling names, without a cluster."""

from collections.abc import Iterator
from typing import Any

import pytest

from jobs.cli import load_command
from jvm.broker_jar import JAR_NAME
from tests.kits.kubernetes_kit import MANIFESTS, ROOT, errors_in, load_schemas, objects
from wire.holds import HOLD_AUTHORIZER
from wire.plugin_reports import REPORTER_CLASS

FOLDER = ROOT / "docs" / "kubernetes"
OBJECTS = list(objects())
SCHEMAS = load_schemas()
MADE_BY_HAND = {"pid-quota-kafka", "pid-quota-console"}
MADE_BY_STRIMZI = {"my-cluster-cluster-ca-cert"}
OF_STRIMZI = (
    *("listeners", "advertised.", "broker.", "listener.", "host.name", "port", "inter.broker.listener.name", "sasl."),
    *(
        "ssl.",
        "security.",
        "password.",
        "log.dir",
        "zookeeper.",
        "authorizer.",
        "super.user",
        "node.id",
        "process.roles",
    ),
    *("cruise.control.metrics.", "controller.", "metadata.log.dir", "client.quota.callback.static."),
    *("prometheus.metrics.reporter.", "cordoned.log.dirs"),
)
"""Prefixes of properties that Strimzi 1.2.0 ignores in `spec.kafka.config`: `FORBIDDEN_PREFIXES` of its source."""


def named(kind: str) -> dict[str, dict[str, Any]]:
    return {content["metadata"]["name"]: content for each, content in OBJECTS if each.endswith(f"/{kind}")}


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the spec of each pod that the manifests create, with the name of its owner."""
    for name, content in named("Deployment").items():
        yield name, content["spec"]["template"]["spec"]
    for name, content in named("CronJob").items():
        yield name, content["spec"]["jobTemplate"]["spec"]["template"]["spec"]


@pytest.mark.parametrize(("kind", "content"), OBJECTS, ids=[f"{k} {c['metadata']['name']}" for k, c in OBJECTS])
def test_the_published_schema_takes_each_object(kind: str, content: dict[str, Any]) -> None:
    assert errors_in(content, SCHEMAS[kind]) == []


def test_a_schema_refuses_what_is_wrong() -> None:
    schema = SCHEMAS["kafka.strimzi.io/v1/KafkaNodePool"]
    (pool,) = named("KafkaNodePool").values()
    changed = pool | {"spec": pool["spec"] | {"roles": ["brokr"], "replica": 3, "replicas": "three"}}
    assert errors_in(changed, schema) == [
        ".spec.replicas: not of type integer",
        ".spec.roles[0]: 'brokr' is not one of ['controller', 'broker']",
        ".spec.replica: unknown",
    ]
    assert errors_in({"apiVersion": pool["apiVersion"], "kind": pool["kind"]}, schema) == [".spec: missing"]


def commands() -> dict[str, list[str]]:
    found = {
        name: container["args"]
        for name, spec in pods()
        for container in spec["containers"]
        if container["image"].startswith("pid-quota:")
    }
    (stream,) = named("SparkApplication").values()
    return found | {"pid-quota-stream": ["stream", *stream["spec"]["arguments"]]}


@pytest.mark.parametrize("name", commands())
def test_each_command_is_one_of_the_cli(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PID_QUOTA_TABLES", "/data/tables")
    called, *arguments = commands()[name]
    command = load_command(called)
    if arguments and arguments[0] in getattr(command, "commands", {}):
        command = command.commands[arguments.pop(0)]
    assert command.make_context(name, arguments).params


def test_probes_and_ports_are_those_that_metrics_are_served_on() -> None:
    for name, spec in pods():
        for container in spec["containers"]:
            arguments = container.get("args", [])
            if "--metrics-port" not in arguments:
                continue
            port = int(arguments[arguments.index("--metrics-port") + 1])
            assert [each["containerPort"] for each in container["ports"]] == [port], name
            assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
            assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_mounts_of_a_pod_come_from_the_manifests_from_strimzi_or_from_the_page() -> None:
    (stream,) = named("SparkApplication").values()
    volumes = [volume for _, spec in pods() for volume in spec["volumes"]] + stream["spec"]["volumes"]
    wanted = {volume["secret"]["secretName"] for volume in volumes if "secret" in volume}
    assert wanted - MADE_BY_STRIMZI == MADE_BY_HAND
    claims = {volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume}
    assert claims == named("PersistentVolumeClaim").keys()
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f" {name} " in page for name in MADE_BY_HAND)


def test_no_container_has_privileges() -> None:
    for name, spec in pods():
        for container in spec["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False, name
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}, name


def brokers() -> dict[str, Any]:
    (kafka,) = named("Kafka").values()
    return dict(kafka["spec"]["kafka"])


def test_the_brokers_load_the_plugin_and_its_authorizer() -> None:
    config = brokers()["config"]
    assert config["metric.reporters"].split(",") == ["org.apache.kafka.common.metrics.JmxReporter", REPORTER_CLASS]
    assert brokers()["authorization"]["authorizerClass"] == HOLD_AUTHORIZER


def test_the_user_of_the_stream_may_write_holds_and_is_no_super_user() -> None:
    (user,) = named("KafkaUser")
    assert brokers()["config"]["pid.quota.writers"] == f"User:{user}"
    assert "superUsers" not in brokers()["authorization"]


def test_strimzi_passes_each_property_on_and_the_plugin_knows_those_of_its_own() -> None:
    settings = "".join(each.read_text(encoding="utf-8") for each in (ROOT / "plugin/pidquota").glob("*.java"))
    for name in brokers()["config"]:
        assert not name.startswith(OF_STRIMZI), name
        if name.startswith("pid.quota."):
            assert f'PREFIX + "{name.removeprefix("pid.quota.")}"' in settings, name


def test_the_image_of_the_brokers_adds_the_jar_to_the_version_of_kafka() -> None:
    text = (FOLDER / "Dockerfile.kafka").read_text(encoding="utf-8")
    base, copied = (line.split() for line in text.splitlines() if not line.startswith("#"))
    assert base[1].endswith(f"-kafka-{brokers()['version']}")
    assert copied == ["COPY", JAR_NAME, "/opt/kafka/libs/"]
    assert f"-t {brokers()['image']} -f docs/kubernetes/Dockerfile.kafka dist" in text


def test_the_page_names_every_file() -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"({file.name})" in page for file in [*MANIFESTS, *FOLDER.glob("Dockerfile.*")])
