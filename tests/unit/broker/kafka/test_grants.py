"""The ACLs that grant the rights of `pid-quota run`, and Kafka's own commands for them."""

import shlex
from unittest.mock import Mock

import pytest

from broker.kafka.grants import Grant
from broker.kafka.roles import run_rights
from broker.kafka.topics import Admin
from wire.topics import HOLDS, PRODUCE_EVENTS, REPORTS

WHO = "User:reader"


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Mock:
    admin = Mock(Admin)
    monkeypatch.setattr("broker.kafka.grants.admin_client", lambda _: admin)
    return admin


@pytest.mark.parametrize("who", [WHO, "User:o'brien", "User:CN=app 1,O=Acme\\\\, Inc.,C=DE", "User:$(id)"])
def test_kafka_s_own_commands_grant_the_same_to_whatever_name_and_a_shell_reads_it_back(who: str) -> None:
    login = ("--bootstrap-server", "h:1", "--command-config", "my admin.properties")
    commands = [Grant(who, each, "missing").command(login) for each in run_rights()]
    read = ["--add", "--allow-principal", who, "--operation", "Read"]
    assert [shlex.split(each) for each in commands] == [
        ["kafka-acls.sh", *login, *read, *resource]
        for resource in (
            ["--topic", PRODUCE_EVENTS],
            ["--topic", REPORTS],
            ["--topic", HOLDS],
            ["--group", "pid-quota", "--resource-pattern-type", "prefixed"],
        )
    ]
