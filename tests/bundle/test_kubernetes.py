"""The manifests of docs/kubernetes: checked against the published schemas and for dangling names, without a cluster."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.cli import load_command
from jobs.quotas.file import read_quotas
from jvm.broker_jar import JAR_NAME
from quota.allowance import Allowance
from tests.kits.kubernetes_kit import ROOT, errors_in, load_schemas, objects
from tests.kits.page_kit import accepted
from wire.holds import HOLD_AUTHORIZER
from wire.plugin_reports import REPORTER_CLASS

FOLDER = ROOT / "docs" / "kubernetes"
OBJECTS = list(objects())
SCHEMAS = load_schemas()
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


@pytest.mark.parametrize(("kind", "content"), OBJECTS, ids=[f"{k} {c['metadata']['name']}" for k, c in OBJECTS])
def test_the_published_schema_takes_each_object(kind: str, content: dict[str, Any]) -> None:
    assert errors_in(content, SCHEMAS[kind]) == []


def run_container() -> dict[str, Any]:
    (container,) = [container for _, spec in pods() for container in spec["containers"]]
    return dict(container)


def test_the_pod_runs_pid_quota_with_variables_that_the_cli_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    container = run_container()
    variables = {each["name"]: each["value"] for each in container["env"]}
    values, others = accepted(container["args"], variables, ("/run-config/",), tmp_path / "file", monkeypatch)
    # Other commands have an option for the place of the tables.
    assert others == {"PID_QUOTA_TABLES"}
    assert values["enforce"] is False


def test_probes_and_ports_are_those_of_run() -> None:
    container = run_container()
    defaults = {each.name: each.default for each in load_command("run").params}
    assert {each["name"]: each["containerPort"] for each in container["ports"]} == {
        "http": int(defaults["console"]),
        "metrics": int(defaults["metrics"]),
    }
    probes = {kind: container[kind]["httpGet"] for kind in ("livenessProbe", "readinessProbe")}
    assert probes == {
        "livenessProbe": {"path": "/healthz", "port": "metrics"},
        "readinessProbe": {"path": "/readyz", "port": "metrics"},
    }


def test_what_a_pod_mounts_is_in_the_manifests_or_made_by_strimzi() -> None:
    volumes = [volume for _, spec in pods() for volume in spec["volumes"]]
    secrets = {volume["secret"]["secretName"] for volume in volumes if "secret" in volume}
    assert secrets == {*named("Secret"), *named("KafkaUser"), "my-cluster-cluster-ca-cert"}
    claims = {volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume}
    assert claims == named("PersistentVolumeClaim").keys()
    (secret,) = named("Secret").values()
    files = {
        each["value"].removeprefix("/run-config/") for each in run_container()["env"] if "run-config" in each["value"]
    }
    assert files == secret["stringData"].keys()


def test_the_quotas_of_the_secret_can_be_read(tmp_path: Path) -> None:
    (secret,) = named("Secret").values()
    file = tmp_path / "quotas.yaml"
    file.write_text(secret["stringData"]["quotas.yaml"], encoding="utf-8")
    assert read_quotas(file, lambda _: None) == {
        None: Allowance.parse({"producer_ids_rate": 200, "producer_ids_burst": None})
    }


def test_the_manifest_has_no_password_that_everybody_knows() -> None:
    # `run` makes one in place of an empty one: see tests/unit/jobs/run/test_files.py.
    (secret,) = named("Secret").values()
    assert secret["stringData"]["console-token"] == ""


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


def test_the_user_of_run_may_write_holds_and_is_no_super_user() -> None:
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
