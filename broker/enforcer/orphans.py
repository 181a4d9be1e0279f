"""Quotas that look like an enforcer's and belong to no lease it knows of: only a person can say whose they are."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from shlex import quote

from broker.cluster.quota_entity import QuotaEntity
from broker.enforcer.notices import value_text
from broker.enforcer.ports import QuotaStore
from broker.errors import BrokerError
from broker.leases.lease_plan import EnforcerOptions

_MOST = 10
_TYPES = {"user": "users", "client-id": "clients", "ip": "ips"}


def orphans(quotas: QuotaStore, options: EnforcerOptions, leases: Collection[QuotaEntity]) -> Iterator[str]:
    """Return a warning for each quota that has the value of our leases and none of them.

    Args:
        quotas: Those of the broker.
        options: The lever and its value.
        leases: Entities of the leases that are known.
    """
    try:
        found = quotas.describe_all()
    except BrokerError:
        # Whatever is wrong, the next step on the broker says it.
        return
    key = options.lever
    alike = [entity for entity, values in found.items() if values.get(key) == options.value and entity not in leases]
    for entity in alike[:_MOST]:
        names = " ".join(f"--entity-type {_TYPES[kind]} --entity-name {quote(name)}" for kind, name in entity.parts())
        yield (
            f"the {key} of {entity} is {value_text(options.value)}, as leases set it, and no lease knows of it: if "
            f"nobody else set it, clear it with kafka-configs.sh --alter {names} --delete-config {key}"
        )
    if len(alike) > _MOST:
        yield f"{len(alike) - _MOST} more quotas have that value and no lease"
