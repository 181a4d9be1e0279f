"""Lists the ACLs of a cluster."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal

from kafka.errors import SecurityDisabledError, for_code
from kafka.protocol.admin import DescribeAclsRequest

from broker.errors import ClusterRequestError
from broker.kafka.client import KafkaAdmin, with_retries
from wire.holds import HOLD_ANY_AUTHORIZER, HOLD_AUTHORIZER

ANY_HOST = "*"
EVERYONE = "User:*"
AUTHORIZER = "authorizer.class.name"
"""Setting that names the class of a broker's authorizer; empty without an authorizer."""

_ALLOW_WITHOUT_ACL = "allow.everyone.if.no.acl.found"
# These authorizers deny access by default, if `allow.everyone.if.no.acl.found` is not set.
_AUTHORIZERS = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
    HOLD_AUTHORIZER,
)
# Codes of the protocol.
_ANY = 1
_OPERATIONS = {"all": 2, "write": 4}
_PERMISSIONS = {"deny": 2, "allow": 3}
_PATTERNS = {"literal": 3, "prefixed": 4}


class AclResource(IntEnum):
    """The type of a resource; the value is Kafka's code."""

    TOPIC = 2
    TRANSACTIONAL_ID = 5


@dataclass(frozen=True)
class Acl:
    """An ACL. `name` may be a prefix or `*`. The operation `other` stands for any that pid-quota does not use."""

    resource: AclResource
    name: str
    principal: str
    operation: str
    permission: Literal["allow", "deny"] = "deny"
    host: str = ANY_HOST
    pattern: str = "literal"


class Acls:
    """The ACLs of a cluster."""

    def __init__(self, admin: KafkaAdmin) -> None:
        self._admin = admin

    def for_writers(self) -> frozenset[Acl]:
        """Return all ACLs on topics and transactional ids."""
        found: set[Acl] = set()
        for resource in (AclResource.TOPIC, AclResource.TRANSACTIONAL_ID):
            answer = self._describe(resource)
            if answer.error_code:
                error = for_code(answer.error_code)
                is_off = error is SecurityDisabledError
                remedy = "start them with an authorizer" if is_off else "grant this user DESCRIBE on the cluster"
                msg = f"the brokers do not show their ACLs ({error.__name__}): {remedy}"
                raise ClusterRequestError(msg)
            found.update(_acl(resource, each, entry) for each in answer.resources for entry in each.acls)
        return frozenset(found)

    def allows_without_acl(self) -> bool | None:
        """Whether access is allowed when no ACL matches; None if brokers hide this, disagree, or refuse the request."""
        try:
            brokers = with_retries(self._admin.brokers)
            found = {allows_without_acl(self._admin.broker_settings(each)) for each in brokers}
        except ClusterRequestError:
            return None
        return found.pop() if len(found) == 1 else None

    def _describe(self, resource: AclResource) -> Any:
        return self._admin.ask(
            DescribeAclsRequest(
                resource_type_filter=resource,
                resource_name_filter=None,
                pattern_type_filter=_ANY,
                principal_filter=None,
                host_filter=None,
                operation=_ANY,
                permission_type=_ANY,
            )
        )


def allows_without_acl(settings: Mapping[str, Mapping[str, Any]]) -> bool | None:
    """Whether a broker's settings allow access when no ACL matches; None if they don't show this.

    Kafka hides the value of `allow.everyone.if.no.acl.found`, because it is a setting of a plugin.
    """
    setting = settings.get(_ALLOW_WITHOUT_ACL)
    if setting is None:
        return False if settings.get(AUTHORIZER, {}).get("value") in _AUTHORIZERS else None
    return None if setting["value"] is None else str(setting["value"]).strip().lower() == "true"


def lets_brokers_write(settings: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether the plugin may surely write its topics on a broker after the first ACL on them.

    The plugin's authorizers let it, and brokers that deny access without an ACL have let it before.
    """
    is_ours = settings.get(AUTHORIZER, {}).get("value") in (HOLD_AUTHORIZER, HOLD_ANY_AUTHORIZER)
    return is_ours or allows_without_acl(settings) is False


def _acl(resource: AclResource, found: Any, entry: Any) -> Acl:
    return Acl(
        resource,
        found.resource_name,
        entry.principal,
        _word(_OPERATIONS, entry.operation),
        "deny" if entry.permission_type == _PERMISSIONS["deny"] else "allow",
        entry.host,
        _word(_PATTERNS, found.pattern_type),
    )


def _word(codes: Mapping[str, int], code: int) -> str:
    return next((word for word, number in codes.items() if number == code), "other")
