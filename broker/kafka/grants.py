"""Grants the rights of roles by ACLs, and revokes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from broker.errors import TopicError
from broker.kafka.errors import name_of, reason_of
from broker.kafka.roles import RIGHTS, KafkaRight, Role
from broker.kafka.topics import DEFAULT_TIMEOUT_S, admin_client, seen_by_brokers

if TYPE_CHECKING:
    from concurrent.futures import Future

_OPTIONS = {ResourceType.BROKER: "--cluster", ResourceType.TOPIC: "--topic", ResourceType.GROUP: "--group"}


@dataclass(frozen=True)
class Grant:
    """A right of a principal.

    `action` is `exists`, `missing`, `granted`, `removed`, or `skipped` if the ACL would lock other users out.
    """

    principal: str
    right: KafkaRight
    action: str

    @property
    def words(self) -> str:
        """The grant in words."""
        return f"{self.principal}: {self.right.words}"

    def command(self, servers: str, tool_option: str = "--add") -> str:
        """Return the command of `kafka-acls.sh` that grants the right or, with `--remove`, revokes it.

        The command lacks the login (`--command-config FILE`).
        """
        words = ["kafka-acls.sh", "--bootstrap-server", servers, tool_option]
        words += ["--force"] if tool_option == "--remove" else []
        words += ["--allow-principal", f"'{self.principal}'", "--operation", _tool_name(self.right.operation)]
        words.append(_OPTIONS[self.right.kind])
        if self.right.kind is not ResourceType.BROKER:
            words.append(f"'{self.right.name}'")
        if self.right.kind is ResourceType.GROUP:
            words += ["--resource-pattern-type", "prefixed"]
        return " ".join(words)


class Grants:
    """The ACLs that pid-quota needs on a cluster.

    Args:
        config: confluent-kafka settings of a user with DESCRIBE and ALTER on the cluster.
        denies_by_default: Whether brokers deny what no ACL allows. If not, rights on shared resources are skipped:
            every user has these rights, and an ACL would lock other users out.
    """

    def __init__(
        self,
        config: Mapping[str, str],
        *,
        denies_by_default: bool,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        self._timeout_s, self._admin = timeout_s, admin_client(config)
        self._denies_by_default = denies_by_default

    def plan(self, principals: Mapping[Role, str]) -> list[Grant]:
        """Return the rights of each role's principal, with the action `exists`, `missing` or `skipped`."""
        found = {principal: self._bindings_of(principal) for principal in set(principals.values())}
        plan: dict[AclBinding, Grant] = {}
        for role, principal in principals.items():
            for right in RIGHTS[role]:
                # Several roles may have the same user, and need the same right for different reasons.
                acl = binding_of(principal, right)
                plan.setdefault(acl, Grant(principal, right, self._action(acl, right, found[principal])))
        return list(plan.values())

    def has_any(self, right: KafkaRight) -> bool:
        """Whether any ACL matches the resource of a right."""
        anybody: Any = None
        asked = AclBindingFilter(
            right.kind,
            right.name,
            ResourcePatternType.MATCH,
            anybody,
            anybody,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        return bool(_result(self._admin.describe_acls(asked, request_timeout=self._timeout_s), "can't read ACLs"))

    def create(self, plan: Sequence[Grant]) -> list[Grant]:
        """Grant the missing rights, and wait until a broker shows them. Return the plan with the outcomes."""
        missing = [grant for grant in plan if grant.action == "missing"]
        if missing:
            answers = self._admin.create_acls(
                [binding_of(each.principal, each.right) for each in missing], request_timeout=self._timeout_s
            )
            for grant, answer in zip(missing, answers.values(), strict=True):
                _result(answer, f"can't grant {grant.words}")
            self._await(missing, "granted")
        return [Grant(each.principal, each.right, "granted") if each in missing else each for each in plan]

    def remove(self, plan: Sequence[Grant]) -> list[Grant]:
        """Revoke the existing rights, and wait until a broker hides them. Return the plan with the outcomes."""
        existing = [grant for grant in plan if grant.action == "exists"]
        for grant in existing:
            (answer,) = self._admin.delete_acls(
                [_filter_of(binding_of(grant.principal, grant.right))], request_timeout=self._timeout_s
            ).values()
            _result(answer, f"can't take back {grant.words}")
        self._await(existing, "removed")
        return [Grant(each.principal, each.right, "removed") if each in existing else each for each in plan]

    def _await(self, changed: Sequence[Grant], action: str) -> None:
        acls = {binding_of(each.principal, each.right) for each in changed}
        principals = {each.principal for each in changed}

        def is_seen() -> bool:
            found = {acl for each in principals for acl in self._bindings_of(each)} & acls
            return found == (acls if action == "granted" else set())

        if not seen_by_brokers(is_seen, self._timeout_s):
            rights = "; ".join(each.words for each in changed)
            msg = (
                f"rights were {action}, but brokers do not show this after {self._timeout_s:g} s ({rights}): try again"
            )
            raise TopicError(msg)

    def _action(self, wanted: AclBinding, right: KafkaRight, found: Sequence[AclBinding]) -> str:
        if wanted in found:
            return "exists"
        return "skipped" if right.is_shared and not self._denies_by_default else "missing"

    def _bindings_of(self, principal: str) -> list[AclBinding]:
        any_name: Any = None
        kind, pattern, operation = ResourceType.ANY, ResourcePatternType.ANY, AclOperation.ANY
        every = AclBindingFilter(kind, any_name, pattern, principal, any_name, operation, AclPermissionType.ANY)
        asked = self._admin.describe_acls(every, request_timeout=self._timeout_s)
        found: list[AclBinding] = _result(asked, f"can't read the ACLs of {principal}")
        return found


def binding_of(principal: str, right: KafkaRight) -> AclBinding:
    """Return the ACL that grants a right."""
    is_group = right.kind is ResourceType.GROUP
    pattern = ResourcePatternType.PREFIXED if is_group else ResourcePatternType.LITERAL
    return AclBinding(right.kind, right.name, pattern, principal, "*", right.operation, AclPermissionType.ALLOW)


def _filter_of(acl: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        acl.restype,
        acl.name,
        acl.resource_pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission_type,
    )


def _result(asked: "Future[Any]", failure: str) -> Any:
    try:
        return asked.result()
    except KafkaException as error:
        if name_of(error) == "SECURITY_DISABLED":
            needed = "set authorizer.class.name on the brokers, or leave out the principals"
        else:
            needed = "DESCRIBE and ALTER on the cluster are needed"
        msg = f"{failure} ({reason_of(error)}): {needed}"
        raise TopicError(msg) from error


def _tool_name(operation: AclOperation) -> str:
    """Return Kafka's name of an operation.

    Examples:
        >>> _tool_name(AclOperation.DESCRIBE_CONFIGS)
        'DescribeConfigs'
    """
    return "".join(word.capitalize() for word in operation.name.split("_"))
