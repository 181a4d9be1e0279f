"""The manifests of docs/kubernetes: against the published schemas, and against what they name. No cluster was asked."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from broker.jars.jar_sets import kafka_classpath
from broker.jars.java import find_java
from broker.local.server_files import LOG_TEMPLATE
from broker.process import run_to_end
from jobs.cli import load_command
from tests.bundle.kubernetes_kit import MANIFESTS, ROOT, errors_in, load_schemas, objects

FOLDER = ROOT / "docs" / "kubernetes"
OBJECTS = list(objects())
SCHEMAS = load_schemas()
MADE_BY_HAND = {"pid-quota-log4j2", "pid-quota-kafka", "pid-quota-console"}
MADE_BY_STRIMZI = {"my-cluster-cluster-ca-cert", "pid-quota-shipper"}


def named(kind: str) -> dict[str, dict[str, Any]]:
    return {content["metadata"]["name"]: content for each, content in OBJECTS if each.endswith(f"/{kind}")}


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """The spec of each pod that the manifests make by themselves, with the name of its owner."""
    for kind in ("Job", "Deployment", "DaemonSet"):
        for name, content in named(kind).items():
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


def test_what_a_pod_mounts_is_made_by_the_manifests_by_strimzi_or_as_the_page_says() -> None:
    (stream,) = named("SparkApplication").values()
    (kafka,) = named("Kafka").values()
    volumes = [volume for _, spec in pods() for volume in spec["volumes"]] + stream["spec"]["volumes"]
    volumes += kafka["spec"]["kafka"]["template"]["pod"]["volumes"]
    wanted = {volume["secret"]["secretName"] for volume in volumes if "secret" in volume}
    wanted |= {volume["configMap"]["name"] for volume in volumes if "configMap" in volume}
    assert wanted - named("ConfigMap").keys() - MADE_BY_STRIMZI == MADE_BY_HAND
    claims = {volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume}
    assert claims == named("PersistentVolumeClaim").keys()
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f" {name} " in page for name in MADE_BY_HAND)


def test_no_container_has_privileges() -> None:
    for name, spec in pods():
        for container in spec["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False, name
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}, name


def test_the_brokers_load_their_own_configuration_and_then_ours() -> None:
    (kafka,) = named("Kafka").values()
    container = kafka["spec"]["kafka"]["template"]["kafkaContainer"]
    (variable,) = container["env"]
    (mount,) = container["volumeMounts"]
    files = variable["value"].partition("=")[2].split(",")
    assert files == ["/opt/kafka/custom-config/log4j2.properties", f"{mount['mountPath']}/log4j2-pid-quota.yaml"]


def test_the_log_on_standard_output_has_the_lines_of_the_log_file() -> None:
    of_file = (ROOT / "broker" / LOG_TEMPLATE).read_text(encoding="utf-8").replace("KafkaAppender", "STDOUT")
    ours, theirs = (
        yaml.safe_load(text)["Configuration"]
        for text in ((FOLDER / "log4j2-pid-quota-stdout.yaml").read_text(encoding="utf-8"), of_file)
    )
    file = theirs["Appenders"].pop("RollingFile")
    console = ours["Appenders"].pop("Console")
    assert console == {name: value for name, value in file.items() if name in console}
    assert console.keys() == {"name", "PatternLayout", "RegexFilter"}
    assert ours == theirs


LOGS_TWO_KINDS = """
import org.apache.logging.log4j.*;
public class Logs { public static void main(String[] none) {
  Logger apis = LogManager.getLogger("kafka.server.KafkaApis");
  apis.trace("[KafkaApi-1] Handling request:RequestHeader(apiKey=PRODUCE, clientId=x) -- {acks=-1}");
  apis.trace("[KafkaApi-1] Handling request:RequestHeader(apiKey=METADATA, clientId=x) -- {}");
  apis.info("an ordinary line");
}}
"""
OF_STRIMZI = """
appender.console.type = Console
appender.console.name = STDOUT
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %-5p %m%n
rootLogger.level = INFO
rootLogger.appenderRefs = console
rootLogger.appenderRef.console.ref = STDOUT
monitorInterval = 30
"""
"""The part of Strimzi's default configuration that ours refers to."""


def test_log4j_merges_both_configurations(jars: Path, tmp_path: Path) -> None:
    (tmp_path / "Logs.java").write_text(LOGS_TWO_KINDS)
    (tmp_path / "log4j2.properties").write_text(OF_STRIMZI)
    files = f"{tmp_path}/log4j2.properties,{FOLDER}/log4j2-pid-quota-stdout.yaml"
    options = [f"-Dlog4j2.configurationFile={files}", "-cp", kafka_classpath(jars), f"{tmp_path}/Logs.java"]

    code, text = run_to_end([find_java(), *options], 120)

    assert code == 0, text
    logged = text.splitlines()
    assert logged[1:] == ["INFO  an ordinary line"]
    assert json.loads(logged[0])["message"].startswith("[KafkaApi-1] Handling request:RequestHeader(apiKey=PRODUCE")


def test_the_shipper_takes_exactly_the_lines_of_the_tap_and_names_their_broker() -> None:
    shipped = yaml.safe_load(named("ConfigMap")["pid-quota-shipper"]["data"]["fluent-bit.yaml"])
    line = shipped["pipeline"]["filters"][0]["regex"].partition(" ")[2]
    assert re.search(line, '{"sn":17,"ts":1790000000000,"thread":"t"')
    assert not re.search(line, "2026-01-01 12:00:00 INFO  [main] KafkaServer:66 - started")
    file = "/var/log/containers/my-cluster-broker-12_kafka_kafka-0a1b.log"
    assert re.search(shipped["parsers"][0]["regex"].replace("?<", "?P<"), file).groupdict() == {"broker_id": "12"}  # type: ignore[union-attr]


def test_the_page_names_every_file() -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"({file.name})" in page for file in [*MANIFESTS, Path("Dockerfile.spark")])
