"""Reads and writes holds on new producer ids: ACL bindings whose names say when they end (`wire.holds`)."""

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from broker.closing import Closing
from broker.cluster.acl_bindings import ANY_HOST, USER, AclBinding, AclBindings
from broker.cluster.broker_settings import AUTHORIZER, broker_settings
from broker.cluster.client_quotas import QuotaChange
from broker.cluster.lazy_admin import TIMEOUT_MS
from broker.cluster.quota_entity import QuotaEntity
from broker.errors import ClientQuotaError, ClientQuotaRefusedError
from wire.holds import LONGEST_HOLD_MS, hold_end_ms, hold_name

HOLD = "hold"
"""Key of a hold; its value is its end, in milliseconds since the epoch."""


class HoldBindings(Closing):
    """The holds of a cluster, in the form of quotas. One connection, as `ClientQuotas`.

    Args:
        settings: Of a kafka-python client, with `bootstrap_servers`.
        timeout_ms: Until an answer is given up.
    """

    def __init__(self, settings: Mapping[str, Any], timeout_ms: int = TIMEOUT_MS) -> None:
        self._acls = AclBindings(settings, "a hold", timeout_ms)
        self._made: dict[QuotaEntity, set[int]] = {}
        """Ends that we set: a broker that has not heard of one yet does not list it."""

    def close(self) -> None:
        """Close the connection, if there is one."""
        self._acls.close()

    def describe(self, entity: QuotaEntity) -> dict[str, float]:
        """Return the latest end of a user's holds, as `{HOLD: milliseconds}`; empty if there is none.

        One that is over counts until it is removed; one that the brokers ignore, since it ends too far ahead, does not.

        Raises:
            ClientQuotaRefusedError: If Kafka refuses the request.
            ClientQuotaUnavailableError: If no broker answers.
        """
        ends = self._ends(entity)
        return {HOLD: float(max(ends))} if ends else {}

    def describe_all(self) -> dict[QuotaEntity, dict[str, float]]:
        """Return the latest ends of all users' holds, also of ignored ones; errors as of `describe`."""
        latest: dict[QuotaEntity, dict[str, float]] = {}
        for name, end_ms in self._bindings(None):
            entity = _entity_of(name)
            if entity is not None:
                values = latest.setdefault(entity, {})
                values[HOLD] = max(values.get(HOLD, 0.0), float(end_ms))
        return latest

    def authorizers(self) -> dict[int, str]:
        """Return the class of each broker's authorizer, by broker id; empty for a broker without one.

        Raises:
            ClientQuotaRefusedError: If Kafka refuses the request.
            ClientQuotaUnavailableError: If no broker answers.
        """
        found = broker_settings(self._acls.admin)
        return {number: settings.get(AUTHORIZER) or "" for number, settings in found.items()}

    def inherited(self, entity: QuotaEntity, key: str, client_ids: Collection[str] = ()) -> float | None:
        """Return None: a user without a hold inherits none."""
        del entity, key, client_ids
        return None

    def alter(self, changes: Sequence[QuotaChange]) -> dict[QuotaEntity, ClientQuotaError | None]:
        """Set, move or remove holds; errors as of `ClientQuotas.alter`."""
        errors: dict[QuotaEntity, ClientQuotaError | None] = {}
        for change in changes:
            try:
                self._set(change.entity, change.value)
            except ClientQuotaError as error:
                errors[change.entity] = error
            else:
                errors[change.entity] = None
        return errors

    def _set(self, entity: QuotaEntity, value: float | None) -> None:
        # The new end first: between two requests the user stays on hold.
        until_ms = None if value is None else round(value)
        made = self._made.setdefault(entity, set())
        gone = (self._ends(entity) | made) - {until_ms}
        if until_ms is not None:
            _require_named(entity)
            _require_short(until_ms)
            self._acls.create([_binding(entity, until_ms)])
            made.add(until_ms)
        if gone:
            self._acls.delete([_binding(entity, end_ms) for end_ms in gone])
            made -= gone

    def _ends(self, entity: QuotaEntity) -> set[int]:
        latest_ms = time.time() * 1000 + LONGEST_HOLD_MS
        return {end_ms for _, end_ms in self._bindings(_principal_of(entity)) if end_ms <= latest_ms}

    def _bindings(self, principal: str | None) -> list[tuple[str, int]]:
        found = [(each, hold_end_ms(each.name)) for each in self._acls.find("topic", "write", principal)]
        return [(each.principal, end_ms) for each, end_ms in found if end_ms is not None and _is_hold(each)]


def _is_hold(binding: AclBinding) -> bool:
    return (binding.permission, binding.pattern, binding.host) == ("deny", "literal", ANY_HOST)


def _binding(entity: QuotaEntity, until_ms: int) -> AclBinding:
    return AclBinding("topic", hold_name(until_ms), _principal_of(entity), "write")


def _principal_of(entity: QuotaEntity) -> str:
    return f"{USER}{entity.user}"


def _entity_of(principal: str) -> QuotaEntity | None:
    """Return the entity of a principal's hold; None if the principal is not of type User.

    Examples:
        >>> _entity_of("User:mallory") == QuotaEntity("mallory", is_hold=True), _entity_of("Group:staff")
        (True, None)
    """
    return QuotaEntity(principal.removeprefix(USER), is_hold=True) if principal.startswith(USER) else None


def _require_named(entity: QuotaEntity) -> None:
    """Refuse an entity that would match every user."""
    if not entity.is_hold or entity.user in (None, "*", "ANONYMOUS"):
        msg = f"a hold on {entity} is never set"
        raise ClientQuotaRefusedError(msg)


def _require_short(until_ms: int) -> None:
    """Refuse a hold that is longer than the brokers would take."""
    if until_ms > time.time() * 1000 + LONGEST_HOLD_MS:
        msg = f"a hold until {until_ms} ms is longer than an hour, which the brokers would ignore"
        raise ClientQuotaRefusedError(msg)
