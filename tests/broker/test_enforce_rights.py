from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from broker.kafka.quota_entity import REQUEST_PERCENTAGE, QuotaEntity
from broker.local.local_broker import LocalBroker
from tests.kits.broker_kit import wait_until
from tests.kits.enforce_kit import EnforcerProcess, actions, decide, quotas_of
from tests.kits.tls_kit import issue, tls_broker
from wire.topics import ENFORCER_TOPIC

MALLORY = QuotaEntity("mallory")
CLUSTER = (ResourceType.BROKER, "kafka-cluster")
TOPIC = (ResourceType.TOPIC, ENFORCER_TOPIC)
GROUP = (ResourceType.GROUP, ENFORCER_TOPIC)
RIGHTS = {
    CLUSTER: {AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS, AclOperation.DESCRIBE, AclOperation.CREATE},
    TOPIC: {AclOperation.READ, AclOperation.WRITE},
    GROUP: {AclOperation.READ},
}
Rights = dict[tuple[ResourceType, str], set[AclOperation]]


@contextmanager
def guarded(
    jars: Path, folder: Path, tables: Path, rights: Rights, *arguments: str
) -> Iterator[tuple[LocalBroker, EnforcerProcess]]:
    """A broker on which the user `job` has these rights and nobody has others on the same; an enforcer as `job`."""
    certificates, server = issue(folder / "certificates")
    with tls_broker(folder / "kafka", {"job": "job-secret"}, jars, certificates, server) as broker:
        # Who has an ACL on a resource makes it closed to others.
        for resource in RIGHTS:
            grant(broker, "somebody", {resource: {AclOperation.DESCRIBE}})
        grant(broker, "job", rights)
        settings = folder / "client.properties"
        lines = broker.client_config("job") | certificates.settings()
        settings.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        enforcer = EnforcerProcess(broker, tables, *arguments, "--kafka-config", str(settings))
        enforcer.connect_to(broker.bootstrap_servers)
        yield broker, enforcer


def grant(broker: LocalBroker, user: str, rights: Rights) -> None:
    bindings = [
        AclBinding(*resource, ResourcePatternType.LITERAL, f"User:{user}", "*", each, AclPermissionType.ALLOW)
        for resource, operations in rights.items()
        for each in operations
    ]
    admin = AdminClient({**broker.admin_config()})
    for created in admin.create_acls(bindings).values():
        created.result()


def take_away(broker: LocalBroker, resource: tuple[ResourceType, str], operation: AclOperation) -> None:
    found = AclBindingFilter(
        *resource, ResourcePatternType.LITERAL, "User:job", "*", operation, AclPermissionType.ALLOW
    )
    admin = AdminClient({**broker.admin_config()})
    (deleted,) = admin.delete_acls([found]).values()
    assert len(deleted.result()) == 1


@pytest.mark.parametrize(
    ("lacking", "named"),
    [
        pytest.param({CLUSTER: {AclOperation.ALTER_CONFIGS}}, ["ALTER_CONFIGS on the cluster"], marks=pytest.mark.slow),
        (
            {
                CLUSTER: {AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS},
                TOPIC: {AclOperation.WRITE},
                GROUP: {AclOperation.READ},
            },
            [
                "DESCRIBE_CONFIGS on the cluster",
                "ALTER_CONFIGS on the cluster",
                f"WRITE on topic {ENFORCER_TOPIC}",
                f"READ on groups {ENFORCER_TOPIC}",
            ],
        ),
    ],
    ids=["one", "several"],
)
def test_missing_rights_are_all_named_at_the_start_and_nothing_changes(
    jars: Path, tmp_path: Path, tables: Path, lacking: Rights, named: list[str]
) -> None:
    rights = {resource: operations - lacking.get(resource, set()) for resource, operations in RIGHTS.items()}
    decide(tables, "User:mallory", 600)
    with guarded(jars, tmp_path, tables, rights, "--apply", "--no-narrow") as (broker, enforcer):
        enforcer.start()
        code, errors = enforcer.wait()
        assert quotas_of(broker) == {}
    assert (code, errors.count("\n")) == (1, 1)
    assert "User:job lacks " in errors
    assert [name for name in named if name not in errors] == []
    assert "pid-quota topics create --enforcer-principal User:job" in errors
    assert "job-secret" not in errors


@pytest.mark.slow
def test_a_dry_run_asks_for_no_right_to_change_anything(jars: Path, tmp_path: Path, tables: Path) -> None:
    rights = {CLUSTER: {AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS}}
    decide(tables, "User:mallory", 600)
    with guarded(jars, tmp_path, tables, rights) as (_, enforcer):
        enforcer.start()
        enforcer.wait_for("throttled")
        assert enforcer.end() == (0, "")


@pytest.mark.slow
def test_a_right_that_is_taken_away_is_told_once_and_it_goes_on_when_it_is_back(
    jars: Path, tmp_path: Path, tables: Path
) -> None:
    with guarded(jars, tmp_path, tables, RIGHTS, "--apply", "--no-narrow") as (broker, enforcer):
        # Given an enforcer with an open lease,
        enforcer.start()
        try:
            enforcer.wait_for("lock", "holding")
            decide(tables, "User:mallory", 600)
            enforcer.wait_for("throttled")
            wait_until(lambda: quotas_of(broker) == {MALLORY: {REQUEST_PERCENTAGE: 0.01}}, "the quota")

            # When it may not change quotas any more, and has to throttle somebody else,
            take_away(broker, CLUSTER, AclOperation.ALTER_CONFIGS)
            decide(tables, "User:eve", 600)

            # Then it says so once, however often it tries, and throttles her once it may.
            enforcer.wait_for("alert", "ALTER_CONFIGS")
            decide(tables, "User:eve", 700)
            enforcer.wait_for("extended")
            assert [notice["user"] for notice in enforcer.notices_of("alert")] == ["eve"]
            assert enforcer.notices_of("trying again") == []
            grant(broker, "job", {CLUSTER: {AclOperation.ALTER_CONFIGS}})
            wait_until(lambda: QuotaEntity("eve") in quotas_of(broker), "eve's quota")
            wait_until(lambda: len(enforcer.notices_of("throttled")) == 2, "it is told")
            assert len(enforcer.notices_of("alert")) == 1
            assert not any("job-secret" in str(notice) for notice in enforcer.notices)
        finally:
            ended = enforcer.end()
        assert ended == (0, "")
        wait_until(lambda: quotas_of(broker) == {}, "the quotas are taken back")
    assert actions(tables).count("restored") == 2


@pytest.mark.slow
def test_a_lease_ends_in_time_although_the_right_to_log_it_was_taken_away(
    jars: Path, tmp_path: Path, tables: Path
) -> None:
    with guarded(jars, tmp_path, tables, RIGHTS, "--apply", "--no-narrow") as (broker, enforcer):
        enforcer.start()
        try:
            # Given a lease, and an enforcer that may not write its topic any more,
            enforcer.wait_for("lock", "holding")
            decide(tables, "User:mallory", 20)
            enforcer.wait_for("throttled")
            take_away(broker, TOPIC, AclOperation.WRITE)

            # then the lease ends, no other one is taken, and the enforcer says what is missing.
            decide(tables, "User:eve", 600)
            wait_until(lambda: quotas_of(broker) == {}, "the lease is over")
            enforcer.wait_for("trying again", "grant this user WRITE on the topic")

            # When it is back, it goes on.
            grant(broker, "job", {TOPIC: {AclOperation.WRITE}})
            wait_until(lambda: quotas_of(broker) == {QuotaEntity("eve"): {REQUEST_PERCENTAGE: 0.01}}, "eve's quota")
        finally:
            ended = enforcer.end()
        assert ended == (0, "")
        wait_until(lambda: quotas_of(broker) == {}, "all is taken back")
