"""A cluster with eight things broken at once: the doctor finds each, and names what mends it."""

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from broker.kafka.grants import Grant, Grants
from broker.kafka.roles import RIGHTS, Role
from broker.kafka.topic_setup import TopicSetup
from broker.kafka.topics import admin_client
from broker.local.local_broker import LocalBroker
from jobs.cli import run
from tables.store.path_tables import create_missing
from tests.kits.broker_kit import LIMIT_S, wait_until
from tests.kits.plugin_kit import NO_PLUGIN, state_report
from wire.topics import HOLDS, PRODUCE_EVENTS, REPORTS

USERS = {"admin": "admin-secret", "operator": "operator-secret"}
MINUTE_MS = 60_000


@pytest.fixture
def broken(jars: Path, tmp_path: Path) -> Iterator[LocalBroker]:
    """A broker without the plugin, with our topics and an operator."""
    with LocalBroker(
        tmp_path / "broken", USERS, jars=jars, metric_reporters=NO_PLUGIN, allow_everyone_if_no_acl_found="false"
    ) as broker:
        arguments = ["--bootstrap-server", broker.admin_servers, "--operator-principal", "User:operator"]
        assert run(["topics", "create", "--deny-by-default", *arguments]) == 0
        yield broker


def take_a_right(broker: LocalBroker) -> None:
    grants = Grants(broker.admin_config(), denies_by_default=True)
    words = f"DESCRIBE_CONFIGS on topic {REPORTS}"
    taken = next(right for right in RIGHTS[Role.OPERATOR] if right.words == words)
    grants.remove([Grant("User:operator", taken, "exists")])


def break_topic(broker: LocalBroker) -> None:
    admin = admin_client(broker.admin_config())
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource("topic", PRODUCE_EVENTS, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result()


def report_as_a_plugin_that_can_t_write_and_as_one_whose_clock_is_ahead(broker: LocalBroker) -> None:
    now_ms, producer = round(time.time() * 1000), Producer(broker.admin_config())
    cluster_id = admin_client(broker.admin_config()).metadata().cluster_id
    for report in (
        state_report(broker_id=1, timestamp_ms=now_ms, cluster_id=cluster_id, problem="can't write"),
        state_report(broker_id=2, timestamp_ms=now_ms + MINUTE_MS, cluster_id=cluster_id),
    ):
        producer.produce(REPORTS, msgspec.json.encode(report), str(report.broker_id).encode())
    assert producer.flush(LIMIT_S) == 0


def test_each_of_eight_broken_things_is_found_with_its_remedy(
    broken: LocalBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    take_a_right(broken)
    report_as_a_plugin_that_can_t_write_and_as_one_whose_clock_is_ahead(broken)
    break_topic(broken)
    # The stream has never written.
    create_missing(str(tmp_path / "tables"))
    file = tmp_path / "operator.properties"
    settings = broken.client_config("operator")
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items() if "bootstrap" not in name))
    servers = ["--bootstrap-server", broken.bootstrap_servers, "--kafka-config", str(file)]

    def found() -> dict[str, tuple[str, str]]:
        capsys.readouterr()
        assert run(["doctor", *servers, "--tables", str(tmp_path / "tables"), "--json"]) == 1
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        # The first finding on a subject is the worst one.
        return {line["subject"]: (line["verdict"], line["remedy"]) for line in reversed(lines)}

    wait_until(lambda: "topic produce-events" in found(), "the broker knows the settings of its topics")
    assert {subject: finding for subject, finding in found().items() if finding[0] != "ok"} == {
        "plugin": ("wrong", "pid-quota plugin load --broker-ids 1 (docs/plugin.md)"),
        "holds": (
            "warning",
            "authorizer.class.name=pidquota.HoldAuthorizer in server.properties of broker 1 (docs/enforcement.md)",
        ),
        "rights, operator": ("wrong", "pid-quota topics create --operator-principal User:operator"),
        "topic produce-events": ("wrong", "pid-quota topics create --alter"),
        "topic pid-quota-reports": ("wrong", "DESCRIBE_CONFIGS on it is needed"),
        "plugin, broker 1": ("wrong", "docs/plugin.md"),
        "clock of broker 2": ("wrong", "synchronise both clocks (chronyc makestep)"),
        "stream": ("wrong", "pid-quota stream (docs/reference.md)"),
    }

    # Given that somebody deletes the topic of the holds, too.
    TopicSetup(broken.admin_config()).delete(HOLDS)
    assert found()["topics"] == ("wrong", "pid-quota topics create")

    # Given a table that the stream needs and that is gone.
    shutil.rmtree(tmp_path / "tables" / "producer_id_quotas")
    assert found()["stream"][0] == "wrong"
