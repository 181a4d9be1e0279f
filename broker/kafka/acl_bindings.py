"""ACL bindings of a cluster: lists, creates and deletes them one by one, never by a filter that matches several."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kafka.errors import SecurityDisabledError
from kafka.protocol.admin import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest

from broker.closing import Closing
from broker.kafka.lazy_admin import TIMEOUT_MS, LazyAdmin, Subject

ANY_HOST = "*"
EVERYONE = "User:*"
USER = "User:"

_RIGHTS = "ALTER, DESCRIBE and DESCRIBE_CONFIGS"
_KEEPS_ACLS = "check that the brokers have an authorizer that keeps ACLs"
# Codes of the protocol.
_ANY = 1
_RESOURCE_TYPES = {"topic": 2, "cluster": 4}
_OPERATIONS = {"all": 2, "write": 4, "idempotent_write": 12}
_PERMISSIONS = {"deny": 2, "allow": 3}
_PATTERNS = {"literal": 3, "prefixed": 4}


@dataclass(frozen=True)
class AclBinding:
    """An ACL.

    Attributes:
        resource_type: `topic` or `cluster`.
        name: Of the resource; `*` matches all.
        principal: With its type; `User:*` matches everyone.
        operation: Such as `write`; `other` for those that we never set.
        permission: `allow` or `deny`.
        host: Of the client; `*` matches all.
        pattern: `literal` or `prefixed`.
    """

    resource_type: str
    name: str
    principal: str
    operation: str
    permission: Literal["allow", "deny"] = "deny"
    host: str = ANY_HOST
    pattern: str = "literal"


class AclBindings(Closing):
    """The ACLs of a cluster. One connection, opened when first needed and again after errors.

    Args:
        settings: Of a kafka-python client, with `bootstrap_servers`.
        one: What the ACLs are for, for messages, such as `a hold`.
        timeout_ms: Until an answer is given up.
    """

    def __init__(self, settings: Mapping[str, Any], one: str = "an ACL", timeout_ms: int = TIMEOUT_MS) -> None:
        self.admin = LazyAdmin(settings, Subject(one, _RIGHTS, _KEEPS_ACLS), timeout_ms)

    def close(self) -> None:
        """Close the connection, if there is one."""
        self.admin.close()

    def find(self, resource_type: str, operation: str | None = None, principal: str | None = None) -> list[AclBinding]:
        """Return all ACLs on resources of a type, of all patterns and hosts; none if brokers have no authorizer.

        Raises:
            ClientQuotaRefusedError: If Kafka refuses the request.
            ClientQuotaUnavailableError: If no broker answers.
        """
        answer = self.admin.ask(
            DescribeAclsRequest(
                resource_type_filter=_RESOURCE_TYPES[resource_type],
                resource_name_filter=None,
                pattern_type_filter=_ANY,
                principal_filter=principal,
                host_filter=None,
                operation=_ANY if operation is None else _OPERATIONS[operation],
                permission_type=_ANY,
            )
        )
        if answer.error_code == SecurityDisabledError.errno:
            return []
        self.admin.require_no_error(answer)
        return [
            AclBinding(
                resource_type,
                resource.resource_name,
                acl.principal,
                _word(_OPERATIONS, acl.operation),
                "deny" if acl.permission_type == _PERMISSIONS["deny"] else "allow",
                acl.host,
                _word(_PATTERNS, resource.pattern_type),
            )
            for resource in answer.resources
            for acl in resource.acls
        ]

    def create(self, bindings: Sequence[AclBinding]) -> None:
        """Create ACLs, in this order; those that exist stay. Raises as `find`."""
        creations = [CreateAclsRequest.AclCreation(*_fields(each)) for each in bindings]
        for result in self.admin.ask(CreateAclsRequest(creations=creations)).results:
            self.admin.require_no_error(result)

    def delete(self, bindings: Sequence[AclBinding]) -> None:
        """Delete exactly these ACLs, in this order; those that do not exist are skipped. Raises as `find`."""
        filters = [DeleteAclsRequest.DeleteAclsFilter(*_fields(each)) for each in bindings]
        for result in self.admin.ask(DeleteAclsRequest(filters=filters)).filter_results:
            self.admin.require_no_error(result)
            for binding in result.matching_acls:
                self.admin.require_no_error(binding)


def _fields(binding: AclBinding) -> tuple[int, str, int, str, str, int, int]:
    """The fields of an ACL, or of the filter that it alone passes, in the protocol's order."""
    return (
        _RESOURCE_TYPES[binding.resource_type],
        binding.name,
        _PATTERNS[binding.pattern],
        binding.principal,
        binding.host,
        _OPERATIONS[binding.operation],
        _PERMISSIONS[binding.permission],
    )


def _word(codes: Mapping[str, int], code: int) -> str:
    return next((word for word, number in codes.items() if number == code), "other")
