"""Reads and writes holds on new producer ids: ACL bindings whose names say when they end (`wire.holds`)."""

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kafka.admin import ConfigResource, ConfigResourceType
from kafka.protocol.admin import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest

from broker.closing import Closing
from broker.cluster.client_quotas import QuotaChange
from broker.cluster.lazy_admin import TIMEOUT_MS, LazyAdmin, Subject
from broker.cluster.quota_entity import QuotaEntity
from broker.errors import ClientQuotaError, ClientQuotaRefusedError
from wire.holds import LONGEST_HOLD_MS, hold_end_ms, hold_name

HOLD = "hold"
"""Key of a hold; its value is its end, in milliseconds since the epoch."""

# Of the protocol: resource type, operation, permission, pattern.
_TOPIC, _WRITE, _DENY, _LITERAL = 2, 4, 2, 3
_ANY_HOST = "*"
_USER = "User:"
_SUBJECT = Subject(
    "a hold", "ALTER, DESCRIBE and DESCRIBE_CONFIGS", "check that the brokers have an authorizer that keeps ACLs"
)
_AUTHORIZER_CONFIG = "authorizer.class.name"


class HoldBindings(Closing):
    """The holds of a cluster on users, from all hosts, in the form of quotas. One connection, as `ClientQuotas`.

    Args:
        settings: Of a kafka-python client, with `bootstrap_servers`.
        timeout_ms: Until an answer is given up.
    """

    def __init__(self, settings: Mapping[str, Any], timeout_ms: int = TIMEOUT_MS) -> None:
        self._admin = LazyAdmin(settings, _SUBJECT, timeout_ms)
        self._made: dict[QuotaEntity, set[int]] = {}

    def close(self) -> None:
        """Close the connection, if there is one."""
        self._admin.close()

    def describe(self, entity: QuotaEntity) -> dict[str, float]:
        """Return the latest end of a user's holds, as `{HOLD: milliseconds}`; empty if there is none.

        One that is over counts until it is removed.

        Raises:
            ClientQuotaRefusedError: If Kafka refuses the request.
            ClientQuotaUnavailableError: If no broker answers.
        """
        return self._found(_principal(entity)).get(entity, {})

    def describe_all(self) -> dict[QuotaEntity, dict[str, float]]:
        """Return the latest ends of all users' holds, as `describe`."""
        return self._found(None)

    def inherited(self, entity: QuotaEntity, key: str, client_ids: Collection[str] = ()) -> float | None:
        """Return None: a user without a hold inherits none."""
        del entity, key, client_ids
        return None

    def alter(self, changes: Sequence[QuotaChange]) -> dict[QuotaEntity, ClientQuotaError | None]:
        """Set, move or remove holds; errors as of `ClientQuotas.alter`."""
        errors: dict[QuotaEntity, ClientQuotaError | None] = {}
        for change in changes:
            try:
                self._set(change.entity, None if change.value is None else round(change.value))
            except ClientQuotaError as error:
                errors[change.entity] = error
            else:
                errors[change.entity] = None
        return errors

    def authorizers(self) -> dict[int, str]:
        """Return the class of each broker's authorizer, by broker id; empty for a broker without one.

        Raises:
            ClientQuotaRefusedError: If Kafka refuses the request.
            ClientQuotaUnavailableError: If no broker answers.
        """
        brokers = self._admin.do(lambda admin: admin.describe_cluster()["brokers"])
        return {number: self._authorizer(number) for number in sorted(int(each["broker_id"]) for each in brokers)}

    def _authorizer(self, broker_id: int) -> str:
        resource = ConfigResource(ConfigResourceType.BROKER, str(broker_id))
        found = self._admin.do(lambda admin: admin.describe_configs([resource], config_filter="all"))
        return str(found["broker"][str(broker_id)].get(_AUTHORIZER_CONFIG, {}).get("value") or "")

    def _set(self, entity: QuotaEntity, until_ms: int | None) -> None:
        # The new end first: between two requests the user stays on hold.
        old = self._ends(entity) | self._made.get(entity, set())
        if until_ms is not None:
            _require_allowed(entity, until_ms)
            self._create(entity, until_ms)
            self._made.setdefault(entity, set()).add(until_ms)
        gone = old - {until_ms}
        if gone:
            self._delete(entity, gone)
        self._made[entity] = set() if until_ms is None else {until_ms}

    def _create(self, entity: QuotaEntity, until_ms: int) -> None:
        binding = CreateAclsRequest.AclCreation(
            resource_type=_TOPIC,
            resource_name=hold_name(until_ms),
            resource_pattern_type=_LITERAL,
            principal=_principal(entity),
            host=_ANY_HOST,
            operation=_WRITE,
            permission_type=_DENY,
        )
        for result in self._admin.ask(CreateAclsRequest(creations=[binding])).results:
            self._admin.require_no_error(result)

    def _delete(self, entity: QuotaEntity, ends_ms: Collection[int]) -> None:
        filters = [
            DeleteAclsRequest.DeleteAclsFilter(
                resource_type_filter=_TOPIC,
                resource_name_filter=hold_name(end_ms),
                pattern_type_filter=_LITERAL,
                principal_filter=_principal(entity),
                host_filter=_ANY_HOST,
                operation=_WRITE,
                permission_type=_DENY,
            )
            for end_ms in ends_ms
        ]
        for result in self._admin.ask(DeleteAclsRequest(filters=filters)).filter_results:
            self._admin.require_no_error(result)
            for binding in result.matching_acls:
                self._admin.require_no_error(binding)

    def _found(self, principal: str | None) -> dict[QuotaEntity, dict[str, float]]:
        latest: dict[QuotaEntity, dict[str, float]] = {}
        for name, end_ms in self._bindings(principal):
            if name.startswith(_USER):
                values = latest.setdefault(QuotaEntity(name.removeprefix(_USER), is_hold=True), {})
                values[HOLD] = max(values.get(HOLD, 0.0), float(end_ms))
        return latest

    def _ends(self, entity: QuotaEntity) -> set[int]:
        return {end_ms for _, end_ms in self._bindings(_principal(entity))}

    def _bindings(self, principal: str | None) -> list[tuple[str, int]]:
        answer = self._admin.ask(
            DescribeAclsRequest(
                resource_type_filter=_TOPIC,
                resource_name_filter=None,
                pattern_type_filter=_LITERAL,
                principal_filter=principal,
                host_filter=_ANY_HOST,
                operation=_WRITE,
                permission_type=_DENY,
            )
        )
        self._admin.require_no_error(answer)
        ends = ((resource.acls, hold_end_ms(resource.resource_name)) for resource in answer.resources)
        return [(acl.principal, end_ms) for acls, end_ms in ends if end_ms is not None for acl in acls]


def _principal(entity: QuotaEntity) -> str:
    return f"{_USER}{entity.user}"


def _require_allowed(entity: QuotaEntity, until_ms: int) -> None:
    """Whatever asks for it: never everybody, and never for longer than the brokers would take."""
    if not entity.is_hold or entity.user in (None, "*", "ANONYMOUS"):
        msg = f"a hold on {entity} is never set"
        raise ClientQuotaRefusedError(msg)
    if until_ms > time.time() * 1000 + LONGEST_HOLD_MS:
        msg = f"a hold until {until_ms} ms is longer than an hour, which the brokers would ignore"
        raise ClientQuotaRefusedError(msg)
