"""A cluster with seven things broken at once: the doctor finds each, and names what mends it."""

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, ResourceType

from broker.kafka.grants import binding_of
from broker.kafka.roles import run_rights
from broker.kafka.topic_setup import TopicSetup, plan_topics
from broker.kafka.topics import admin_client
from broker.local.local_broker import LocalBroker
from jobs.cli import run
from tables.store.path_tables import create_missing
from tests.kits.admin_kit import allow, alter, bound
from tests.kits.broker_kit import LIMIT_S, wait_until
from tests.kits.plugin_kit import NO_PLUGIN, state_report
from wire.topics import HOLDS, PRODUCE_EVENTS, REPORTS

USERS = {"admin": "admin-secret", "pid-quota": "secret"}
USER = "User:pid-quota"
MINUTE_MS = 60_000
NO_AUTHORIZER = (
    "authorizer.class.name=pidquota.HoldAuthorizer in server.properties of broker 1; pidquota.HoldAnyAuthorizer where "
    "another authorizer than Kafka's runs, or none (docs/enforcement.md)"
)


@pytest.fixture
def broken(jars: Path, tmp_path: Path) -> Iterator[LocalBroker]:
    """A broker without the plugin, with our topics, and a user who may do all but read the topic of holds."""
    with LocalBroker(
        tmp_path / "broken", USERS, jars=jars, metric_reporters=NO_PLUGIN, allow_everyone_if_no_acl_found="false"
    ) as broker:
        TopicSetup(broker.admin_config()).create(plan_topics())
        topics = [(PRODUCE_EVENTS, AclOperation.ALL), (REPORTS, AclOperation.READ), (HOLDS, AclOperation.DESCRIBE)]
        acls = [allow(name, USER, ResourceType.TOPIC, operation) for name, operation in topics]
        groups = [binding_of(USER, right) for right in run_rights() if right.kind is ResourceType.GROUP]
        with bound(broker, *acls, *groups):
            yield broker


def report_as_a_plugin_that_can_t_write_and_as_one_whose_clock_is_ahead(broker: LocalBroker) -> None:
    now_ms, producer = round(time.time() * 1000), Producer(broker.admin_config())
    cluster_id = admin_client(broker.admin_config()).metadata().cluster_id
    for report in (
        state_report(broker_id=1, timestamp_ms=now_ms, cluster_id=cluster_id, problem="can't write"),
        state_report(broker_id=2, timestamp_ms=now_ms + MINUTE_MS, cluster_id=cluster_id),
    ):
        producer.produce(REPORTS, msgspec.json.encode(report), str(report.broker_id).encode())
    assert producer.flush(LIMIT_S) == 0


def test_each_of_seven_broken_things_is_found_with_its_remedy(
    broken: LocalBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report_as_a_plugin_that_can_t_write_and_as_one_whose_clock_is_ahead(broken)
    alter(broken, {"cleanup.policy": "compact"}, PRODUCE_EVENTS)
    # The stream has never written.
    create_missing(str(tmp_path / "tables"))
    file = tmp_path / "pid-quota.properties"
    settings = broken.client_config("pid-quota")
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items() if "bootstrap" not in name))
    servers = ["--bootstrap-server", broken.bootstrap_servers, "--command-config", str(file)]

    def found() -> dict[str, tuple[str, str]]:
        capsys.readouterr()
        assert run(["doctor", *servers, "--tables", str(tmp_path / "tables"), "--json"]) == 1
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        # The first finding on a subject is the worst one.
        return {line["subject"]: (line["verdict"], line["remedy"]) for line in reversed(lines)}

    wait_until(lambda: "topic produce-events" in found(), "the broker knows the settings of its topics")
    assert {subject: finding for subject, finding in found().items() if finding[0] != "ok"} == {
        "rights": ("wrong", "pid-quota topics create --reader User:pid-quota"),
        "topic produce-events": ("wrong", "pid-quota topics create --alter"),
        "plugin, broker 1": ("wrong", "docs/plugin.md"),
        "authorizer": ("warning", NO_AUTHORIZER),
        "clock of broker 2": ("wrong", "synchronise both clocks (chronyc makestep)"),
        "stream": ("wrong", "pid-quota run (docs/reference.md)"),
    }

    # Given that somebody deletes the topic of the holds, too.
    TopicSetup(broken.admin_config()).delete(HOLDS)
    assert found()["topics"] == ("wrong", "pid-quota topics create")

    # Given a table that the stream needs and that is gone.
    shutil.rmtree(tmp_path / "tables" / "producer_id_quotas")
    assert found()["stream"][0] == "wrong"
