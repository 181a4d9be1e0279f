"""What an administrator does on a real broker: ACLs, settings, deletions of topics."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from broker.local.local_broker import LocalBroker
from tests.broker.local_cluster import LocalCluster
from tests.kits.broker_kit import wait_until


def binding(
    name: str,
    principal: str = "User:mallory",
    host: str = "*",
    *,
    kind: ResourceType = ResourceType.TOPIC,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    operation: AclOperation = AclOperation.WRITE,
    permission: AclPermissionType = AclPermissionType.DENY,
) -> AclBinding:
    return AclBinding(kind, name, pattern, principal, host, operation, permission)


def allow(
    name: str,
    principal: str,
    kind: ResourceType = ResourceType.TOPIC,
    operation: AclOperation = AclOperation.WRITE,
    *,
    prefixed: bool = False,
) -> AclBinding:
    pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
    permission = AclPermissionType.ALLOW
    return binding(name, principal, kind=kind, pattern=pattern, operation=operation, permission=permission)


def bind(broker: LocalBroker | LocalCluster, *bindings: AclBinding) -> None:
    admin = AdminClient({**broker.admin_config()})
    for created in admin.create_acls(list(bindings)).values():
        created.result()
    # A broker learns what the controller has taken a moment later.
    wait_until(lambda: all(_is_there(admin, each) for each in bindings), "they are in force")


@contextmanager
def bound(broker: LocalBroker | LocalCluster, *bindings: AclBinding) -> Iterator[None]:
    """ACLs that are there while the block runs."""
    bind(broker, *bindings)
    try:
        yield
    finally:
        admin = AdminClient({**broker.admin_config()})
        for deleted in admin.delete_acls([_filter(each) for each in bindings]).values():
            deleted.result()
        wait_until(lambda: not any(_is_there(admin, each) for each in bindings), "they are gone")


def alter(broker: LocalBroker, settings: Mapping[str, str | None], topic: str | None = None) -> None:
    """Set dynamic settings of a topic, or of the broker alone; None takes one back."""
    operations = {
        name: AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET for name, value in settings.items()
    }
    entries = [ConfigEntry(name, value, incremental_operation=operations[name]) for name, value in settings.items()]
    kind, name = (ResourceType.TOPIC, topic) if topic else (ResourceType.BROKER, str(broker.broker_id))
    # Held by a name: an AdminClient that is collected takes its answers with it.
    admin = AdminClient({**broker.admin_config()})
    for done in admin.incremental_alter_configs([ConfigResource(kind, name, incremental_configs=entries)]).values():
        done.result()


def delete_topic(broker: LocalBroker | LocalCluster, topic: str) -> None:
    admin = AdminClient({**broker.admin_config()})
    admin.delete_topics([topic])[topic].result()


def _is_there(admin: AdminClient, binding: AclBinding) -> bool:
    return bool(admin.describe_acls(_filter(binding)).result())


def _filter(binding: AclBinding) -> AclBindingFilter:
    names = ("restype", "name", "resource_pattern_type", "principal", "host", "operation", "permission_type")
    return AclBindingFilter(*(getattr(binding, name) for name in names))
