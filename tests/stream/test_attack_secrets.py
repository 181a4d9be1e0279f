"""A real run with SASL that is made to say all it can: the password is in nothing that it says or writes."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from attack_kit import event
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from deltalake import DeltaTable

from broker.local import LocalBroker

PASSWORD = "-".join(["hunter2", "of", "mallory"])
RECORDS = 450


@dataclass
class Run:
    root: Path
    said: str


@pytest.fixture(scope="module")
def run(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    root = tmp_path_factory.mktemp("secrets")
    with LocalBroker(root / "kafka", users={"job": PASSWORD}, jars=jars) as broker:
        admin = AdminClient(broker.admin_config())
        for created in admin.create_topics([NewTopic("events", 2, 1)]).values():
            created.result()
        producer = Producer(broker.admin_config())
        for number in range(RECORDS):
            producer.produce("events", event(number), partition=number % 2)
        assert producer.flush(60) == 0
        settings = root / "client.properties"
        lines = {**broker.client_config("job")}
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
        yield Run(root / "job", ended.stdout + ended.stderr)


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
