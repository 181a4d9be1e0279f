"""An ACL on topics or transactional ids, as Kafka stores it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from wire.holds import HOLD_AUTHORIZER

# Of the protocol.
_PREFIXED = 4
_ALLOW = 3
_ALL, _WRITE = 2, 4

# Without the setting these deny.
_AUTHORIZERS = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
    HOLD_AUTHORIZER,
)


class AclResource(IntEnum):
    """What an ACL is on; the value is Kafka's code."""

    TOPIC = 2
    TRANSACTIONAL_ID = 5


@dataclass(frozen=True)
class Acl:
    """An ACL.

    Attributes:
        resource: what kind of resource it is on.
        name: of the resource, a prefix of such names, or `*` for all.
        is_prefix: `name` is a prefix; then `*` is no wildcard.
        principal: such as `User:alice`; `User:*` is everybody.
        host: an IP address; `*` is any.
        is_about_write: its operation is WRITE or ALL.
        is_allow: it allows; otherwise it denies.
    """

    resource: AclResource
    name: str
    is_prefix: bool
    principal: str
    host: str
    is_about_write: bool
    is_allow: bool


def acl_of(resource: Any, entry: Any) -> Acl:
    """Convert an entry of a DescribeAcls response."""
    return Acl(
        resource=AclResource(resource.resource_type),
        name=resource.resource_name,
        is_prefix=resource.pattern_type == _PREFIXED,
        principal=entry.principal,
        host=entry.host,
        is_about_write=entry.operation in (_ALL, _WRITE),
        is_allow=entry.permission_type == _ALLOW,
    )


def allows_without_acl(settings: Mapping[str, Mapping[str, Any]]) -> bool | None:
    """Whether everybody may use what no ACL names, by a broker's described settings; None if they do not tell.

    Kafka hides the value of `allow.everyone.if.no.acl.found`, since it is of a plugin, but not that it is set.
    """
    setting = settings.get("allow.everyone.if.no.acl.found")
    if setting is None:
        return False if settings.get("authorizer.class.name", {}).get("value") in _AUTHORIZERS else None
    return None if setting["value"] is None else str(setting["value"]).strip().lower() == "true"
