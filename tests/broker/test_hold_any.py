"""`pidquota.HoldAnyAuthorizer`: holds on clusters with another authorizer than Kafka's, or with none."""

import os
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from broker.errors import BrokerStartError
from broker.local.local_broker import LocalBroker
from broker.local.server_process import Jvm
from jvm.jar_sets import ensure_jars
from jvm.java import find_java
from tests.broker.test_hold_topics import DENIED, errors_of_writes
from tests.kits.admin_kit import alter, binding
from tests.kits.broker_kit import new_topic, produce, wait_for_report, wait_until
from tests.kits.hold_kit import LOADING, Asker, held
from tests.kits.hostile_kit import Hostile
from wire.holds import HOLD_ANY_AUTHORIZER, HOLD_AUTHORIZER
from wire.plugin_reports import AliveReport
from wire.topics import HOLDS, OWN_TOPICS, PRODUCE_EVENTS, REPORTS

SOURCE = Path(__file__).with_name("TeamAuthorizer.java")
WRAPPED = "pid.quota.authorizer.class.name"
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53


class TeamBroker(LocalBroker):
    """A broker with `HoldAnyAuthorizer` around the authorizer of `TeamAuthorizer.java`."""

    def __init__(self, folder: Path, jars: Path, team: Path, **properties: Any) -> None:
        super().__init__(folder, jars=jars, **({"authorizer_class_name": HOLD_ANY_AUTHORIZER} | properties))
        self._team = team

    def _java(self) -> Jvm:
        ours = super()._java()
        return Jvm(ours.classpath, ours.log_option, (*ours.more_jars, self._team))


@pytest.fixture(scope="module")
def team(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The jar of the other authorizer."""
    folder, sets = tmp_path_factory.mktemp("team"), ensure_jars(jars)
    ecj, kafka = (os.pathsep.join(map(str, each)) for each in (sets.compiler, sets.kafka))
    main = "org.eclipse.jdt.internal.compiler.batch.Main"
    subprocess.run([find_java(), "-cp", ecj, main, "-11", "-cp", kafka, "-d", str(folder), str(SOURCE)], check=True)
    with zipfile.ZipFile(folder / "team.jar", "w") as jar:
        jar.write(folder / "TeamAuthorizer.class", "TeamAuthorizer.class")
    return folder / "team.jar"


@pytest.fixture(scope="module")
def broker(jars: Path, team: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    properties = {"pid_quota_authorizer_class_name": "TeamAuthorizer", "allow_everyone_if_no_acl_found": "false"}
    with TeamBroker(
        tmp_path_factory.mktemp("any"), jars, team, **properties, pid_quota_writers="User:alice"
    ) as running:
        running.wait_for_plugin()
        yield running


def test_the_other_authorizer_is_asked_first(broker: LocalBroker) -> None:
    with held(broker), Hostile(broker, "mallory") as mallory, Asker(broker, "alice") as alice:
        # Its users may write to topics, which is right enough for a PID.
        wait_until(lambda: alice.error() == 0, "alice gets a PID")
        assert mallory.init()[0] == LOADING
        assert mallory.init("hers")[0] == TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert "INIT_PRODUCER_ID" not in broker.server_log.read_text()


def test_the_plugins_topics_are_protected(broker: LocalBroker) -> None:
    """Those whom the other authorizer lets act as brokers are brokers."""
    assert errors_of_writes(broker, "mallory") == dict.fromkeys(OWN_TOPICS, DENIED)
    assert errors_of_writes(broker, "alice") == {PRODUCE_EVENTS: DENIED, REPORTS: DENIED, HOLDS: None}
    assert errors_of_writes(broker, "admin") == dict.fromkeys(OWN_TOPICS)
    assert wait_for_report(broker, AliveReport, lambda each: True).has_authorizer


def test_the_other_authorizers_own_settings_change_at_run_time(broker: LocalBroker) -> None:
    topic = new_topic(broker, "private")
    produce(broker.client_config("alice"), topic)
    alter(broker, {"team.secret": "private"})
    with Hostile(broker, "alice") as alice:

        def is_refused() -> bool:
            alice.send_produce(topic, b"")
            return b"\x00\x1d" in alice.receive()

        wait_until(is_refused, "the new prefix counts")


def test_without_another_authorizer_everybody_may_do_everything(tmp_path: Path, jars: Path, team: Path) -> None:
    with TeamBroker(tmp_path, jars, team) as broker:
        broker.wait_for_plugin()
        produce(broker.client_config("mallory"), new_topic(broker, "orders"))
        with held(broker), Asker(broker) as mallory:
            assert mallory.error() == LOADING
        assert errors_of_writes(broker, "mallory") == dict.fromkeys(OWN_TOPICS, DENIED)
        admin = AdminClient({**broker.admin_config()})
        (created,) = admin.create_acls([binding("orders")]).values()
        with pytest.raises(KafkaException, match="SECURITY_DISABLED"):
            created.result()


@pytest.mark.parametrize("name", ["org.apache.kafka.metadata.authorizer.StandardAuthorizer", HOLD_AUTHORIZER])
def test_kafkas_authorizer_is_not_wrapped(tmp_path: Path, jars: Path, team: Path, name: str) -> None:
    """Kafka would never load its ACLs."""
    with pytest.raises(BrokerStartError):
        TeamBroker(tmp_path, jars, team, pid_quota_authorizer_class_name=name).start()
    log = (tmp_path / "server.log").read_text()
    assert f"{WRAPPED}: has Kafka's own ACLs: set authorizer.class.name={HOLD_AUTHORIZER}, and remove {WRAPPED}" in log


def test_an_authorizer_that_is_missing_ends_the_start(tmp_path: Path, jars: Path, team: Path) -> None:
    with pytest.raises(BrokerStartError):
        TeamBroker(tmp_path, jars, team, pid_quota_authorizer_class_name="no.such.Authorizer").start()
    assert (
        f"Invalid value no.such.Authorizer for configuration {WRAPPED}: is not on the class path"
        in (tmp_path / "server.log").read_text()
    )
