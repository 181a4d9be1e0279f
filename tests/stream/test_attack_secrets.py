"""A real run with SASL over TLS that is made to say all it can: the password is in nothing that it says or writes.

The same file of settings serves Spark's Kafka source, confluent-kafka and kafka-python; the broker takes nobody who has
no certificate.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable
from kafka.admin import KafkaAdminClient

from broker.kafka.config import KafkaConfig
from tests.kits.broker_kit import make_topic
from tests.kits.stream_kit import event
from tests.kits.tls_kit import issue, tls_broker

pytestmark = pytest.mark.slow

PASSWORD = "-".join(["hunter2", "of", "mallory"])
RECORDS = 450


@dataclass
class Run:
    root: Path
    said: str
    servers: str
    settings: Path


@pytest.fixture(scope="module")
def run(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    root = tmp_path_factory.mktemp("secrets")
    certificates, server = issue(root / "certificates")
    with tls_broker(root / "kafka", {"job": PASSWORD}, jars, certificates, server) as broker:
        make_topic(broker, "events", 2)
        producer = Producer(broker.admin_config())
        for number in range(RECORDS):
            producer.produce("events", event(number), partition=number % 2)
        assert producer.flush(60) == 0
        settings = root / "client.properties"
        lines = {**broker.client_config("job"), **certificates.settings()}
        servers = lines.pop("bootstrap.servers")
        settings.write_text("\n".join(f"{name}={value}" for name, value in lines.items()))
        assert PASSWORD in settings.read_text()
        program = [sys.executable, str(Path(__file__).with_name("secrets_run.py"))]
        ended = subprocess.run(
            [*program, servers, "events", str(settings), str(root / "job")],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert ended.returncode == 0, ended.stderr[-2000:]
        yield Run(root / "job", ended.stdout + ended.stderr, servers, settings)


def test_no_password_is_in_the_log_the_plans_the_progress_or_an_error(run: Run) -> None:
    assert "== Optimized Logical Plan ==" in run.said
    assert " INFO " in run.said
    assert "REFUSED" in run.said
    assert "SaslAuthenticationException" in run.said
    assert [line for line in run.said.splitlines() if PASSWORD in line] == []


def test_no_password_is_in_a_table_or_the_checkpoint(run: Run) -> None:
    files = [file for file in run.root.rglob("*") if file.is_file()]

    assert len(DeltaTable(str(run.root / "tables" / "producer_id_metrics")).file_uris()) > 0
    assert [file for file in files if PASSWORD.encode() in file.read_bytes()] == []


def test_a_backlog_is_read_in_batches_of_no_more_than_was_asked_for(run: Run) -> None:
    lines = [line for line in run.said.splitlines() if line.startswith("PROGRESS ")]
    sizes = [json.loads(line.removeprefix("PROGRESS "))["numInputRows"] for line in lines]

    assert sum(sizes) == RECORDS
    assert max(sizes) <= 100


def test_confluent_kafka_and_kafka_python_get_in_by_the_same_file(run: Run) -> None:
    kafka = KafkaConfig.load(run.servers, run.settings)

    assert "events" in AdminClient({**kafka.client()}).list_topics(timeout=60).topics
    admin = KafkaAdminClient(**kafka.kafka_python())
    try:
        assert "events" in admin.list_topics()
    finally:
        admin.close()


@pytest.mark.parametrize("without", ["ssl.ca.location", "ssl.certificate.location"])
def test_nobody_gets_in_who_does_not_trust_the_broker_or_shows_no_certificate(run: Run, without: str) -> None:
    settings = KafkaConfig.load(run.servers, run.settings).client()
    del settings[without]
    if without == "ssl.certificate.location":
        del settings["ssl.key.location"]

    with pytest.raises(KafkaException):
        AdminClient({**settings, "log_level": "0"}).list_topics(timeout=5)
