"""What holds and refusals have in common: ACLs for the new producer ids of a user, in the form of quotas."""

from abc import abstractmethod
from collections.abc import Collection, Sequence
from typing import Protocol

from broker.cluster.acl_bindings import USER, AclBinding
from broker.cluster.client_quotas import QuotaChange
from broker.cluster.quota_entity import QuotaEntity
from broker.errors import ClientQuotaError, ClientQuotaRefusedError


class Acls(Protocol):
    """The ACLs of a cluster; see `AclBindings`."""

    def find(self, resource_type: str, operation: str | None = None, principal: str | None = None) -> list[AclBinding]:
        """Return all ACLs on resources of a type."""

    def create(self, bindings: Sequence[AclBinding]) -> None:
        """Create ACLs, in this order."""

    def delete(self, bindings: Sequence[AclBinding]) -> None:
        """Delete exactly these ACLs."""


class NewPidBindings:
    """ACLs that keep users from new producer ids, from all hosts.

    Args:
        acls: Of the cluster.
        one: What is set, for messages, such as `a hold`.
    """

    def __init__(self, acls: Acls, one: str) -> None:
        self._acls, self._one = acls, one

    def inherited(self, entity: QuotaEntity, key: str, client_ids: Collection[str] = ()) -> float | None:
        """Return None: a user without one inherits none."""
        del entity, key, client_ids
        return None

    def alter(self, changes: Sequence[QuotaChange]) -> dict[QuotaEntity, ClientQuotaError | None]:
        """Set, move or remove them; errors as of `ClientQuotas.alter`."""
        errors: dict[QuotaEntity, ClientQuotaError | None] = {}
        for change in changes:
            try:
                self._set(change.entity, change.value)
            except ClientQuotaError as error:
                errors[change.entity] = error
            else:
                errors[change.entity] = None
        return errors

    @abstractmethod
    def _set(self, entity: QuotaEntity, value: float | None) -> None: ...

    def _require_named(self, entity: QuotaEntity) -> None:
        """Refuse an entity that would match every user."""
        if not entity.is_hold or entity.user in (None, "*", "ANONYMOUS"):
            msg = f"{self._one} on {entity} is never set"
            raise ClientQuotaRefusedError(msg)


def principal_of(entity: QuotaEntity) -> str:
    """Return the principal of a user.

    Examples:
        >>> principal_of(QuotaEntity("mallory", is_hold=True))
        'User:mallory'
    """
    return f"{USER}{entity.user}"


def entity_of(principal: str) -> QuotaEntity | None:
    """Return the entity of a principal's new producer ids; None if it is not of type User.

    Examples:
        >>> entity_of("User:mallory") == QuotaEntity("mallory", is_hold=True), entity_of("Group:staff")
        (True, None)
    """
    return QuotaEntity(principal.removeprefix(USER), is_hold=True) if principal.startswith(USER) else None
