"""The enforcer as a user of a secured cluster: over TLS, and without the rights it needs until somebody grants them."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from broker.cluster.client_quotas import REQUEST_PERCENTAGE
from broker.cluster.quota_entity import QuotaEntity
from tables.delta import create_missing
from tests.broker.enforce_kit import EnforcerProcess, actions, decide, quotas_of
from tests.broker_kit import wait_until
from tests.tls_kit import issue, tls_broker

MALLORY = QuotaEntity("mallory")


def grant(admin: AdminClient, user: str, *operations: AclOperation) -> None:
    bindings = [
        AclBinding(
            ResourceType.BROKER,
            "kafka-cluster",
            ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for operation in operations
    ]
    for created in admin.create_acls(bindings).values():
        created.result()


@pytest.mark.parametrize(
    "missing",
    [
        pytest.param({AclOperation.ALTER_CONFIGS}, marks=pytest.mark.slow),
        {AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS},
    ],
)
def test_without_a_right_it_says_so_and_waits_until_it_has_it(
    jars: Path, tmp_path: Path, missing: set[AclOperation]
) -> None:
    certificates, server = issue(tmp_path / "certificates")
    with tls_broker(tmp_path / "kafka", {"job": "job-secret"}, jars, certificates, server) as broker:
        # Given a user without some rights of an enforcer; who has an ACL on a resource makes it closed to others.
        admin = AdminClient({**broker.admin_config()})
        needed = {AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS, AclOperation.DESCRIBE}
        grant(admin, "job", *sorted(needed - missing, key=lambda operation: operation.name))
        settings = tmp_path / "client.properties"
        lines = broker.client_config("job") | certificates.settings()
        settings.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        tables = tmp_path / "tables"
        create_missing(str(tables))
        enforcer = EnforcerProcess(broker, tables, "--apply", "--no-narrow", "--kafka-config", str(settings))
        enforcer.connect_to(broker.bootstrap_servers)
        enforcer.start()
        try:
            enforcer.wait_for("lock", "holding")

            # When it should throttle somebody
            decide(tables, "User:mallory", 600)

            # Then it says what is missing, runs on, and does it once it may.
            wait_until(lambda: any("uthoriz" in notice["why"] for notice in enforcer.notices), "the missing right")
            assert not any("job-secret" in str(notice) for notice in enforcer.notices)
            grant(admin, "job", *missing)
            wait_until(lambda: quotas_of(broker) == {MALLORY: {REQUEST_PERCENTAGE: 0.01}}, "the quota")
        finally:
            code, errors = enforcer.end()
        assert (code, errors) == (0, "")
        wait_until(lambda: quotas_of(broker) == {}, "the quota is taken back")
        assert actions(tables)[-1] == "restored"
