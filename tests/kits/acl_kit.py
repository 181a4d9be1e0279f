"""ACLs for tests on a real broker."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
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


def allow(name: str, principal: str, kind: ResourceType, operation: AclOperation) -> AclBinding:
    return binding(name, principal, kind=kind, operation=operation, permission=AclPermissionType.ALLOW)


@contextmanager
def bound(broker: LocalBroker | LocalCluster, *bindings: AclBinding) -> Iterator[None]:
    """ACLs that are there while the block runs."""
    admin = AdminClient({**broker.admin_config()})
    for created in admin.create_acls(list(bindings)).values():
        created.result()
    # A broker learns what the controller has taken a moment later.
    wait_until(lambda: all(_is_there(admin, each) for each in bindings), "they are in force")
    try:
        yield
    finally:
        _unbind(broker, *bindings)


def _unbind(broker: LocalBroker | LocalCluster, *bindings: AclBinding) -> None:
    admin = AdminClient({**broker.admin_config()})
    for deleted in admin.delete_acls([_filter(each) for each in bindings]).values():
        deleted.result()
    wait_until(lambda: not any(_is_there(admin, each) for each in bindings), "they are gone")


def _is_there(admin: AdminClient, binding: AclBinding) -> bool:
    return bool(admin.describe_acls(_filter(binding)).result())


def _filter(binding: AclBinding) -> AclBindingFilter:
    names = ("restype", "name", "resource_pattern_type", "principal", "host", "operation", "permission_type")
    return AclBindingFilter(*(getattr(binding, name) for name in names))
