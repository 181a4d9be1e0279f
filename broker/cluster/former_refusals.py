"""Removes the refusals of earlier versions: ACLs that denied a user new producer ids, by the former lever `refuse`.

A refusal is two denials. The first ACL on a cluster closes it to everybody else, so an ALLOW for everyone preceded
them.
"""

from collections.abc import Callable, Sequence

from broker.cluster.acl_bindings import EVERYONE, USER, AclBinding, AclBindings
from broker.cluster.client_quotas import QuotaChange
from broker.cluster.quota_entity import QuotaEntity
from broker.errors import ClientQuotaError

REFUSE = "refuse"
"""Quota key of such leases."""
ALLOWED, REFUSED = 1.0, 2.0
"""Their previous value if an ALLOW for everyone was there before, else None; and their enforced value."""

_CLUSTER = "kafka-cluster"
_ALLOW_EVERYONE = AclBinding("cluster", _CLUSTER, EVERYONE, "all", "allow")


class FormerRefusals:
    """Removes refusals; sets none.

    Args:
        acls: Of the cluster.
        warn: Called with a sentence if the ALLOW for everyone has to stay.
    """

    def __init__(self, acls: AclBindings, warn: Callable[[str], None]) -> None:
        self._acls, self._warn = acls, warn

    def alter(self, changes: Sequence[QuotaChange]) -> dict[QuotaEntity, ClientQuotaError | None]:
        """Remove the refusals of users, and the ALLOW for everyone unless it was there before (`ALLOWED`).

        Errors as of `ClientQuotas.alter`.
        """
        error = None
        try:
            denied = [each for change in changes for each in _denials(f"{USER}{change.entity.user}")]
            self._acls.delete(denied)
            if any(change.value is None for change in changes):
                # A broker that has not heard of the deletion yet still lists the denials.
                self._remove_allow({*self._acls.find("cluster")} - {*denied, _ALLOW_EVERYONE})
        except ClientQuotaError as refused:
            error = refused
        return {change.entity: error for change in changes}

    def _remove_allow(self, others: set[AclBinding]) -> None:
        if not others:
            self._acls.delete([_ALLOW_EVERYONE])
            return
        self._warn(
            f"the ALLOW All for everyone on the cluster stays, although an enforcer added it: the cluster has "
            f"{len(others)} other ACLs, and would be closed to all whom they do not name. Remove it by hand once they "
            f"name everybody: kafka-acls.sh --remove --allow-principal '{EVERYONE}' --operation All --cluster"
        )


def _denials(principal: str) -> tuple[AclBinding, AclBinding]:
    # A broker asks for Write on any topic of a topic named `hardcode` (Kafka's `Authorizer.authorizeByResourceType`).
    return AclBinding("cluster", _CLUSTER, principal, "idempotent_write"), AclBinding(
        "topic", "hardcode", principal, "write"
    )
