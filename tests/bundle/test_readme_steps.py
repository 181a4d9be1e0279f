"""README's three steps, typed as written, on three brokers with SASL_SSL, SCRAM and ACLs that deny by default."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from broker.local.server_process import free_ports
from tests.broker.local_cluster import LocalCluster
from tests.kits.admin_kit import allow, bound
from tests.kits.broker_kit import new_topic, produce, wait_until
from tests.kits.hold_kit import Churn
from tests.kits.page_kit import README
from tests.kits.tls_kit import issue

pytestmark = [pytest.mark.slow, pytest.mark.alone]

PASSWORD = "-".join(("its", "password"))
USERS = {"admin": "admin-secret", "mallory": "mallory-secret", "user1": "user1-secret"}
WRITER = "User:pid-quota"
END_S = 60


@dataclass(frozen=True)
class Steps:
    """The code blocks and the inline commands of README's section, in their order."""

    blocks: tuple[str, ...]
    inline: tuple[str, ...]

    @classmethod
    def read(cls) -> "Steps":
        text = README.read_text(encoding="utf-8")
        section = text[text.index("## Set up on your cluster") : text.index("## How a quota works")]
        blocks = tuple(each.strip("\n") for each in re.findall(r"^```\n(.*?)^```", section, re.MULTILINE | re.DOTALL))
        prose = re.sub(r"^```.*?^```", "", section, flags=re.MULTILINE | re.DOTALL)
        return cls(blocks, tuple(re.findall(r"`([^`]+)`", prose)))


@dataclass(frozen=True)
class Place:
    """An empty folder on a machine whose names lead to the cluster, and its certificate."""

    folder: Path
    cluster: LocalCluster
    ca: Path
    environment: dict[str, str]

    def typed(self, text: str) -> str:
        """A text of README with the addresses, places and secrets of this machine."""
        here = {
            "kafka:9092": self.cluster.bootstrap_servers,
            "/data/pid-quota": str(self.folder / "data"),
            "/etc/ssl/kafka-ca.pem": str(self.ca),
            "…": PASSWORD,
        }
        return re.sub("|".join(here), lambda found: here[found[0]], text)

    def shell(self, text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["bash", "-ec", self.typed(text)], **self._how(), check=False, timeout=300)

    @contextmanager
    def running(self, text: str) -> Iterator["subprocess.Popen[str]"]:
        """A shell whose last command stays, ended by Ctrl-C."""
        process = subprocess.Popen(["bash", "-ec", self.typed(text)], **self._how(), start_new_session=True)
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGINT)
            printed, _ = process.communicate(timeout=END_S)
            print(printed)

    def _how(self) -> dict[str, Any]:
        return {
            "cwd": self.folder,
            "env": self.environment,
            "text": True,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
        }


@pytest.fixture(scope="module")
def steps() -> Steps:
    return Steps.read()


@pytest.fixture(scope="module")
def place(steps: Steps, jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A cluster as step 1 sets it up, and a user for pid-quota that nobody gave a right."""
    folder = tmp_path_factory.mktemp("readme")
    certificates, server = issue(folder / "tls")
    listener = "listener_name_clients_ssl"
    lines = [*steps.blocks[0].splitlines(), *(each for each in steps.inline if each.startswith("pid.quota.writers="))]
    of_readme: dict[str, Any] = dict(line.split("=", 1) for line in lines)
    properties: dict[str, Any] = {
        "allow_everyone_if_no_acl_found": "false",
        "listener_security_protocol_map": "CLIENTS:SASL_SSL,INNER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listener_name_clients_sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.clients.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        f"{listener}_keystore_type": "PEM",
        f"{listener}_keystore_location": server,
        f"{listener}_truststore_type": "PEM",
        f"{listener}_truststore_location": certificates.ca,
    }
    with LocalCluster(folder / "cluster", USERS, jars=jars, **properties, **of_readme) as cluster:
        admin = AdminClient({**cluster.admin_config()})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        made = UserScramCredentialUpsertion(WRITER.partition(":")[2], info, PASSWORD.encode())
        for done in admin.alter_user_scram_credentials([made]).values():
            done.result()
        empty = folder / "empty"
        empty.mkdir()
        (ports,) = free_ports()
        environment = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PID_QUOTA_JARS": str(jars),
            "PID_QUOTA_CONSOLE": str(ports.clients),
            "PID_QUOTA_METRICS": str(ports.inner),
        }
        yield Place(empty, cluster, certificates.ca, environment)


def ready(place: Place) -> str:
    """What `run` says of itself."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{place.environment['PID_QUOTA_METRICS']}/readyz") as answer:
            return str(answer.read().decode())
    except OSError as error:
        return str(error)


def test_three_steps_lead_from_an_empty_folder_to_a_hold(steps: Steps, place: Place) -> None:
    # given users that may write, as on any cluster with ACLs
    cluster = place.cluster
    cluster.wait_for_plugin()
    topic = new_topic(cluster, "orders")
    rights = [allow(topic, f"User:{name}", ResourceType.TOPIC, AclOperation.WRITE) for name in ("mallory", "user1")]
    install, *start = steps.blocks[1].splitlines()
    assert install.startswith("pip install 'dist/pid_quota-")
    secure = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(place.ca)}
    with bound(cluster, *rights):
        # when step 2 runs it
        with place.running("exec 2>&1\n" + "\n".join(start)):
            wait_until(lambda: ready(place) == "ok\n", "run is ready")
            produce(cluster.client_config("user1") | secure, topic, messages=3)
            # then nothing is wrong
            (doctor,) = (each for each in steps.inline if each.startswith("pid-quota doctor "))
            wait_until(lambda: place.shell(doctor).returncode == 0, f"nothing is wrong: {place.shell(doctor).stdout}")
            # and step 3 sets quotas
            done = place.shell(steps.blocks[2])
            assert done.returncode == 0, done.stdout
        # and with --enforce, a user over the quota is held
        settings = cluster.client_config("mallory") | secure
        with place.running("\n".join(start[-1:]) + " --enforce --never User:etl"), Churn(settings, topic, 4):
            wait_until(lambda: held(place) == ["User:mallory"], "mallory is held")
            (release,) = (each for each in steps.inline if each.startswith("pid-quota release"))
            login = steps.blocks[1].splitlines()[-1].split(" run ")[1].split(" --data")[0]
            assert "confirmed by broker 1, 2, 3" in place.shell(f"{release} {login}").stdout


def held(place: Place) -> list[str]:
    query = "SELECT principal FROM holds_now WHERE confirmed_brokers = 3"
    found = place.shell(f"PID_QUOTA_TABLES=/data/pid-quota/tables pid-quota sql --json '{query}'")
    return [row["principal"] for row in json.loads(found.stdout)] if found.returncode == 0 else []
