"""The ACLs that grant the rights of `pid-quota run`, and Kafka's own commands for them."""

import shlex
from collections.abc import Iterable
from concurrent.futures import Future
from unittest.mock import Mock

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from broker.kafka.grants import Grant, Grants, binding_of
from broker.kafka.roles import run_rights
from broker.kafka.topics import Admin
from wire.topics import HOLDS, PRODUCE_EVENTS, REPORTS

WHO = "User:reader"


class Cluster:
    """The ACLs of a cluster that shows each change at once."""

    def __init__(self, admin: Mock, acls: Iterable[AclBinding] = ()) -> None:
        self.acls = {*acls}
        admin.describe_acls.side_effect = self._describe
        admin.create_acls.side_effect = self._create
        admin.delete_acls.side_effect = self._delete

    def _describe(self, asked: AclBindingFilter, **_: object) -> "Future[object]":
        return done(
            [
                each
                for each in self.acls
                if asked.principal in (None, each.principal) and asked.name in (None, each.name)
            ]
        )

    def _create(self, asked: list[AclBinding], **_: object) -> dict[AclBinding, "Future[object]"]:
        self.acls |= {*asked}
        return {each: done(None) for each in asked}

    def _delete(self, asked: list[AclBindingFilter], **_: object) -> dict[AclBindingFilter, "Future[object]"]:
        for each in asked:
            self.acls = {acl for acl in self.acls if (acl.name, acl.principal) != (each.name, each.principal)}
        return {each: done([]) for each in asked}


def done(value: object) -> "Future[object]":
    future: Future[object] = Future()
    future.set_result(value)
    return future


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Mock:
    admin = Mock(Admin)
    monkeypatch.setattr("broker.kafka.grants.admin_client", lambda _: admin)
    return admin


def test_a_user_may_read_three_topics_and_the_groups_of_our_readers_and_nothing_else(admin: Mock) -> None:
    cluster = Cluster(admin)
    grants = Grants({})
    assert {each.action for each in grants.create(grants.plan(WHO))} == {"granted"}
    rest = (WHO, "*", AclOperation.READ, AclPermissionType.ALLOW)
    topics = {
        AclBinding(ResourceType.TOPIC, name, ResourcePatternType.LITERAL, *rest)
        for name in (PRODUCE_EVENTS, REPORTS, HOLDS)
    }
    assert cluster.acls == topics | {AclBinding(ResourceType.GROUP, "pid-quota", ResourcePatternType.PREFIXED, *rest)}


def test_what_is_granted_already_is_left_and_only_that_is_taken_back(admin: Mock) -> None:
    first, *_ = run_rights()
    foreign = binding_of("User:other", first)
    cluster = Cluster(admin, [binding_of(WHO, first), foreign])
    grants = Grants({})
    assert [each.action for each in grants.plan(WHO)] == ["exists", "missing", "missing", "missing"]
    assert [each.action for each in grants.remove(grants.plan(WHO))] == ["removed", "missing", "missing", "missing"]
    assert admin.delete_acls.call_count == 1
    assert cluster.acls == {foreign}


def test_topics_that_would_get_their_first_acl_are_named(admin: Mock) -> None:
    events, reports, *_ = run_rights()
    Cluster(admin, [binding_of(WHO, events), binding_of("User:other", reports)])
    grants = Grants({})
    assert grants.first_on_topics(grants.plan(WHO)) == [HOLDS]


def test_nothing_is_asked_to_be_granted_if_all_is(admin: Mock) -> None:
    Cluster(admin, [binding_of(WHO, each) for each in run_rights()])
    grants = Grants({})
    assert {each.action for each in grants.create(grants.plan(WHO))} == {"exists"}
    admin.create_acls.assert_not_called()


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
