"""The plugin writes with the login that the broker uses between brokers, whatever that is."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from broker.local.local_broker import LocalBroker
from tests.kits.admin_kit import alter
from tests.kits.broker_kit import events_of, new_topic, wait_for_report
from tests.kits.hostile_kit import Hostile, batch
from tests.kits.login_kit import NAMED, PREFIX, STORE_PASSWORD, LoginBroker, Stores
from wire.plugin_reports import AliveReport

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
ADMIN = 'username="admin" password="admin-secret"'
LOGIN = f'{PLAIN} {ADMIN} user_admin="admin-secret";'
SASL: dict[str, object] = {
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    f"{PREFIX}.sasl.enabled.mechanisms": "PLAIN",
}
OWN_CLIENT = re.compile(r"pid-quota-plugin|\[(Producer|AdminClient) clientId|(Producer|AdminClient)Config values")


@contextmanager
def started(folder: Path, jars: Path, protocol: str, properties: dict[str, object]) -> Iterator[LocalBroker]:
    with LoginBroker(folder, jars, protocol, properties) as broker:
        broker.wait_for_plugin()
        yield broker


def assert_events_come(broker: LocalBroker) -> None:
    """A PID of the admin, the only one who may write, has an event; and the log has nothing but the line at start."""
    topic = new_topic(broker, "orders")
    with Hostile(broker, "admin") as client:
        pid = client.producer_id()
        client.produce(topic, batch(pid))
    assert [each.principal for each in events_of(broker, pid)][:1] == ["User:admin"]
    log = broker.server_log.read_text()
    ours = [line for line in log.splitlines() if "pidquota.Reporter)" in line]
    assert len(ours) == 1, ours
    assert "INFO pid-quota: writing who appends" in ours[0]
    assert not [line for line in log.splitlines() if OWN_CLIENT.search(line)]


def test_plain_by_the_listeners_own_property(tmp_path: Path, jars: Path) -> None:
    login = {f"{PREFIX}.plain.sasl.jaas.config": LOGIN}
    with started(tmp_path, jars, "SASL_PLAINTEXT", SASL | login) as broker:
        assert_events_come(broker)


@pytest.mark.slow
@pytest.mark.parametrize("section", ["KafkaServer", "replication-9091.KafkaServer"])
def test_plain_by_a_jaas_file_with_other_logins_beside(
    tmp_path: Path, jars: Path, section: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    file = tmp_path / "jaas.conf"
    file.write_text(f'{section} {{ {scram} username="x" password="y"; {LOGIN} }};\n')
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.auth.login.config={file}")
    with started(tmp_path / "broker", jars, "SASL_PLAINTEXT", SASL) as broker:
        assert_events_come(broker)


@pytest.mark.slow
def test_scram_over_tls_with_certificates_in_pem_files(tmp_path: Path, jars: Path) -> None:
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    properties: dict[str, object] = {
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        f"{PREFIX}.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
        f"{PREFIX}.scram-sha-512.sasl.jaas.config": f"{scram} {ADMIN};",
        # The mechanism that is not between brokers must not be taken.
        f"{PREFIX}.plain.sasl.jaas.config": f'{PLAIN} username="wrong" password="wrong" user_wrong="other";',
        # Nor a property that the listener overrides.
        "ssl.truststore.location": tmp_path / "of-another-listener",
        "ssl.keystore.location": tmp_path / "of-another-listener",
    }
    with LoginBroker(tmp_path / "broker", jars, "SASL_SSL", properties | Stores(tmp_path / "stores").pem()) as broker:
        add_scram_user(broker, "admin", "admin-secret")
        broker.wait_for_plugin()
        assert_events_come(broker)


def add_scram_user(broker: LocalBroker, user: str, password: str) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    admin = AdminClient({**broker.admin_config()})
    change = UserScramCredentialUpsertion(user, info, password.encode())
    for answer in admin.alter_user_scram_credentials([change]).values():
        answer.result()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["PKCS12", "JKS", "PEM"])
def test_mutual_tls_from_each_kind_of_store(tmp_path: Path, jars: Path, kind: str) -> None:
    stores = Stores(tmp_path / "stores")
    # A PKCS12 store has one password; a JKS key may have its own.
    key_password = STORE_PASSWORD if kind == "PKCS12" else "key-secret"
    found = stores.pem_texts() if kind == "PEM" else stores.keystore(kind, key_password)
    required: dict[str, object] = {f"{PREFIX}.ssl.client.auth": "required"}
    with started(tmp_path / "broker", jars, "SSL", {**NAMED, **required, **found}) as broker:
        assert_events_come(broker)


@pytest.mark.slow
def test_certificates_that_are_renewed_in_place_are_read_again(tmp_path: Path, jars: Path) -> None:
    stores = Stores(tmp_path / "stores")
    # Idle connections end, so that clients have to log in again.
    more: dict[str, object] = {f"{PREFIX}.ssl.client.auth": "required", "connections.max.idle.ms": 2000}
    with started(tmp_path / "broker", jars, "SSL", {**NAMED, **more, **stores.pem()}) as broker:
        assert_events_come(broker)

        # when another authority signs all certificates, and the running broker reads the files again
        stores.renew(trustme.CA())
        alter(broker, {name: str(value) for name, value in stores.pem().items() if name.endswith("location")})

        changed_ms = time.time() * 1000
        wait_for_report(broker, AliveReport, lambda each: each.timestamp_ms > changed_ms + 15_000)


@pytest.mark.slow
def test_the_plugins_own_settings_override_the_login(tmp_path: Path, jars: Path) -> None:
    login: dict[str, object] = {f"{PREFIX}.plain.sasl.jaas.config": LOGIN}
    # given a broker whose plugin writes to another cluster, without a password
    with LocalBroker(tmp_path / "other", jars=jars, metric_reporters="") as other:
        own: dict[str, object] = {
            "pid.quota.producer.bootstrap.servers": other.admin_servers,
            "pid.quota.producer.security.protocol": "PLAINTEXT",
        }
        with LoginBroker(tmp_path / "broker", jars, "SASL_PLAINTEXT", SASL | login | own) as broker:
            report = wait_for_report(other, AliveReport, lambda each: each.problem is None)
            topic = new_topic(broker, "orders")
            with Hostile(broker, "admin") as client:
                pid = client.producer_id()
                client.produce(topic, batch(pid))
                assert [each.principal for each in events_of(other, pid)][:1] == ["User:admin"]
    meta = (tmp_path / "other" / "data" / "meta.properties").read_text()
    assert f"cluster.id={report.cluster_id}\n" in meta
