"""Lists, creates and deletes ACLs of a cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal

from kafka.errors import SecurityDisabledError, for_code
from kafka.protocol.admin import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest

from broker.errors import ClusterRequestError
from broker.kafka.client import KafkaAdmin, with_retries
from wire.holds import HOLD_AUTHORIZER

ANY_HOST = "*"
EVERYONE = "User:*"
USER = "User:"
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
_OPERATIONS = {"all": 2, "write": 4, "idempotent_write": 12}
_PERMISSIONS = {"deny": 2, "allow": 3}
_PATTERNS = {"literal": 3, "prefixed": 4}


class AclResource(IntEnum):
    """The type of a resource; the value is Kafka's code."""

    TOPIC = 2
    CLUSTER = 4
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

    def find(self, resource: AclResource, operation: str | None = None, principal: str | None = None) -> list[Acl]:
        """Return the matching ACLs; none if brokers have no authorizer."""
        answer = self._describe(resource, operation, principal)
        if answer.error_code == SecurityDisabledError.errno:
            return []
        self._admin.require_no_error(answer)
        return [_acl(resource, found, entry) for found in answer.resources for entry in found.acls]

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

    def create(self, acls: Sequence[Acl]) -> None:
        """Create these ACLs, in order. Existing ACLs stay."""
        creations = [CreateAclsRequest.AclCreation(*_fields(each)) for each in acls]
        for result in self._admin.ask(CreateAclsRequest(creations=creations)).results:
            self._admin.require_no_error(result)

    def delete(self, acls: Sequence[Acl]) -> None:
        """Delete exactly these ACLs, in order. Missing ACLs are skipped."""
        filters = [DeleteAclsRequest.DeleteAclsFilter(*_fields(each)) for each in acls]
        for result in self._admin.ask(DeleteAclsRequest(filters=filters)).filter_results:
            self._admin.require_no_error(result)
            for acl in result.matching_acls:
                self._admin.require_no_error(acl)

    def _describe(self, resource: AclResource, operation: str | None = None, principal: str | None = None) -> Any:
        return self._admin.ask(
            DescribeAclsRequest(
                resource_type_filter=resource,
                resource_name_filter=None,
                pattern_type_filter=_ANY,
                principal_filter=principal,
                host_filter=None,
                operation=_ANY if operation is None else _OPERATIONS[operation],
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


def _fields(acl: Acl) -> tuple[int, str, int, str, str, int, int]:
    # The protocol has this order in ACLs and in filters. As a filter, these fields match only this ACL.
    pattern, operation, permission = _PATTERNS[acl.pattern], _OPERATIONS[acl.operation], _PERMISSIONS[acl.permission]
    return acl.resource, acl.name, pattern, acl.principal, acl.host, operation, permission


def _word(codes: Mapping[str, int], code: int) -> str:
    return next((word for word, number in codes.items() if number == code), "other")
