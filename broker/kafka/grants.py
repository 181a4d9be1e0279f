"""Grants the rights of `pid-quota run` by ACLs, and revokes them."""

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
from broker.kafka.errors import name_of
from broker.kafka.roles import KafkaRight, run_rights
from broker.kafka.silence import result_of
from broker.kafka.topics import DEFAULT_TIMEOUT_S, admin_client, seen_by_brokers
from quota.typed import typed

if TYPE_CHECKING:
    from concurrent.futures import Future

_OPTIONS = {ResourceType.TOPIC: "--topic", ResourceType.GROUP: "--group"}


@dataclass(frozen=True)
class Grant:
    """A right of a principal. `action` is `exists`, `missing`, `granted` or `removed`."""

    principal: str
    right: KafkaRight
    action: str

    @property
    def words(self) -> str:
        """The grant in words."""
        return f"{self.principal}: {self.right.words}"

    def command(self, login: Sequence[str]) -> str:
        """Return the command of `kafka-acls.sh` that grants the right, quoted for a shell.

        `login` has the command's options for the connection.
        """
        words = ["kafka-acls.sh", *login, "--add", "--allow-principal", self.principal]
        words += ["--operation", self.right.operation.name.capitalize(), _OPTIONS[self.right.kind], self.right.name]
        if self.right.kind is ResourceType.GROUP:
            words += ["--resource-pattern-type", "prefixed"]
        return typed(words)


class Grants:
    """The ACLs on our topics and groups. `config` is of a user with DESCRIBE and ALTER on the cluster."""

    def __init__(self, config: Mapping[str, str], timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        self._config, self._timeout_s, self._admin = config, timeout_s, admin_client(config)

    def plan(self, principal: str) -> list[Grant]:
        """Return the rights that a principal needs, with the action `exists` or `missing`."""
        found = self._bindings_of(principal)
        return [
            Grant(principal, right, "exists" if binding_of(principal, right) in found else "missing")
            for right in run_rights()
        ]

    def first_on_topics(self, plan: Sequence[Grant]) -> list[str]:
        """Return the topics on which no ACL is yet, and that would get their first ones."""
        missing = {
            each.right.name for each in plan if each.action == "missing" and each.right.kind is ResourceType.TOPIC
        }
        return sorted(name for name in missing if not self._has_any(name))

    def _has_any(self, topic: str) -> bool:
        anybody: Any = None
        kind, pattern = ResourceType.TOPIC, ResourcePatternType.MATCH
        asked = AclBindingFilter(kind, topic, pattern, anybody, anybody, AclOperation.ANY, AclPermissionType.ANY)
        return bool(self._result(self._admin.describe_acls(asked, request_timeout=self._timeout_s), "can't read ACLs"))

    def create(self, plan: Sequence[Grant]) -> list[Grant]:
        """Grant the missing rights, and wait until a broker shows them. Return the plan with the outcomes."""
        missing = [grant for grant in plan if grant.action == "missing"]
        if missing:
            answers = self._admin.create_acls(
                [binding_of(each.principal, each.right) for each in missing], request_timeout=self._timeout_s
            )
            for grant, answer in zip(missing, answers.values(), strict=True):
                self._result(answer, f"can't grant {grant.words}")
            self._await(missing, "granted")
        return [Grant(each.principal, each.right, "granted") if each in missing else each for each in plan]

    def remove(self, plan: Sequence[Grant]) -> list[Grant]:
        """Revoke the existing rights, and wait until a broker hides them. Return the plan with the outcomes."""
        existing = [grant for grant in plan if grant.action == "exists"]
        for grant in existing:
            (answer,) = self._admin.delete_acls(
                [_filter_of(binding_of(grant.principal, grant.right))], request_timeout=self._timeout_s
            ).values()
            self._result(answer, f"can't take back {grant.words}")
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

    def _bindings_of(self, principal: str) -> list[AclBinding]:
        any_name: Any = None
        kind, pattern, operation = ResourceType.ANY, ResourcePatternType.ANY, AclOperation.ANY
        every = AclBindingFilter(kind, any_name, pattern, principal, any_name, operation, AclPermissionType.ANY)
        asked = self._admin.describe_acls(every, request_timeout=self._timeout_s)
        found: list[AclBinding] = self._result(asked, f"can't read the ACLs of {principal}")
        return found

    def _result(self, asked: "Future[Any]", failure: str) -> Any:
        return result_of(asked, self._config, failure, _remedy)


def _remedy(error: KafkaException) -> str:
    if name_of(error) == "SECURITY_DISABLED":
        return "the brokers run no authorizer, so no user needs a right"
    return "DESCRIBE and ALTER on the cluster are needed"


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
