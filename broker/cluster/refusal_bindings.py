"""Reads and writes refusals of new producer ids: ACLs that any broker understands, and that somebody has to remove.

A broker gives a producer id to whom it allows IdempotentWrite on the cluster, or else Write on any topic, which it asks
of a topic named `hardcode` first (Kafka's `Authorizer.authorizeByResourceType`). A refusal denies a user both. The
first ACL on the cluster closes it to everybody else, so an ALLOW for everyone precedes it.
"""

from collections.abc import Callable, Iterable

from broker.cluster.acl_bindings import ANY_HOST, EVERYONE, AclBinding
from broker.cluster.hold_bindings import HOLD
from broker.cluster.new_pid_bindings import Acls, NewPidBindings, entity_of, principal_of
from broker.cluster.quota_entity import QuotaEntity
from broker.errors import ClientQuotaRefusedError, ClientQuotaUnavailableError

REFUSE = "refuse"
"""Key of a refusal; its value is `ALLOWED`, `REFUSED`, or None if no ACL allows everyone to write idempotently."""
ALLOWED, REFUSED = 1.0, 2.0
"""An ACL on the cluster allows everyone to write idempotently; and other ACLs refuse it to this user."""
NEW_PID_KEYS = (HOLD, REFUSE)
"""Keys of what keeps new producer ids back, known ones not."""
HARDCODE = "hardcode"
"""The topic whose name Kafka asks for."""

_CLUSTER = "kafka-cluster"
ALLOW_EVERYONE = AclBinding("cluster", _CLUSTER, EVERYONE, "all", "allow")


class RefusalBindings(NewPidBindings):
    """The refusals of a cluster, in the form of quotas.

    Args:
        acls: Of the cluster.
        trouble: Looks at the cluster, and returns why it must not get an ALLOW for everyone, or an empty string.
        warn: Called with a sentence if that ALLOW has to stay.
    """

    def __init__(self, acls: Acls, *, trouble: Callable[[], str], warn: Callable[[str], None]) -> None:
        super().__init__(acls, "a refusal")
        self._trouble, self._warn = trouble, warn
        self._gone: set[AclBinding] = set()
        """What we deleted: a broker that has not heard of it yet may still list it."""

    def describe(self, entity: QuotaEntity) -> dict[str, float]:
        """Return the state of a user, as `{REFUSE: value}`; empty if no ACL allows everyone.

        Raises:
            ClientQuotaRefusedError: If Kafka refuses the request.
            ClientQuotaUnavailableError: If no broker answers.
        """
        cluster = self._acls.find("cluster")
        if not allows_everyone(cluster):
            return {}
        refused = refused_principals([*cluster, *self._acls.find("topic", "write", principal_of(entity))])
        return {REFUSE: REFUSED if principal_of(entity) in refused else ALLOWED}

    def describe_all(self) -> dict[QuotaEntity, dict[str, float]]:
        """Return all users who are denied both, whatever everyone else is allowed."""
        refused = refused_principals([*self._acls.find("cluster"), *self._acls.find("topic", "write")])
        found = (entity_of(principal) for principal in sorted(refused))
        return {entity: {REFUSE: REFUSED} for entity in found if entity is not None}

    def _set(self, entity: QuotaEntity, value: float | None) -> None:
        if value == REFUSED:
            self._require_named(entity)
            self._refuse(denials(principal_of(entity)))
        else:
            self._allow(denials(principal_of(entity)), is_open=value is not None)

    def _refuse(self, denied: tuple[AclBinding, ...]) -> None:
        # In one request and in this order: the cluster is closed to nobody in between.
        wanted = (*self._opening(), *denied)
        self._gone -= set(wanted)
        try:
            self._acls.create(wanted)
        except ClientQuotaRefusedError:
            self._acls.delete(wanted[::-1])
            raise

    def _opening(self) -> tuple[AclBinding, ...]:
        if allows_everyone(set(self._acls.find("cluster")) - self._gone):
            return ()
        trouble = self._trouble()
        if trouble:
            # Retriable: what was there when the lease was planned may come back.
            raise ClientQuotaUnavailableError(trouble)
        return (ALLOW_EVERYONE,)

    def _allow(self, denied: tuple[AclBinding, ...], *, is_open: bool) -> None:
        self._acls.delete(denied)
        self._gone |= set(denied)
        if is_open:
            return
        cluster = set(self._acls.find("cluster")) - self._gone
        rest = cluster - {ALLOW_EVERYONE}
        if not rest:
            self._acls.delete([ALLOW_EVERYONE])
            self._gone.add(ALLOW_EVERYONE)
        elif not refused_principals([*rest, *self._acls.find("topic", "write")]):
            self._warn(
                f"the ALLOW All for everyone on the cluster stays, although we added it: the cluster has got other "
                f"ACLs since ({len(rest)}), and would be closed to all whom they do not name. Remove it by hand once "
                f"they name everybody: kafka-acls.sh --remove --allow-principal '{EVERYONE}' --operation All --cluster"
            )


def denials(principal: str) -> tuple[AclBinding, AclBinding]:
    """Return the two ACLs that refuse a principal new producer ids."""
    return AclBinding("cluster", _CLUSTER, principal, "idempotent_write"), AclBinding(
        "topic", HARDCODE, principal, "write"
    )


def allows_everyone(acls: Iterable[AclBinding]) -> bool:
    """Whether one of these ACLs on the cluster allows everyone to write idempotently."""
    return any(
        (each.principal, each.permission, each.host) == (EVERYONE, "allow", ANY_HOST)
        and each.name in (_CLUSTER, "*")
        and each.operation in ("all", "idempotent_write")
        for each in acls
    )


def refused_principals(acls: Iterable[AclBinding]) -> set[str]:
    """Return the principals that have both denials among these ACLs."""
    found = set(acls)
    return {each.principal for each in found if found.issuperset(denials(each.principal))}
