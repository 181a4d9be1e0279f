"""Finds quotas with our leases' value that belong to no known lease: an operator has to decide about them."""

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
    """Yield a warning for each quota that has the value of our leases but belongs to none.

    Args:
        quotas: The broker's client quotas.
        options: The lever and its value.
        leases: Entities of the known leases.
    """
    try:
        found = quotas.describe_all()
    except BrokerError:
        # The next step on the broker reports the same error.
        return
    key = options.lever
    alike = [entity for entity, values in found.items() if values.get(key) == options.value and entity not in leases]
    for entity in alike[:_MOST]:
        names = " ".join(f"--entity-type {_TYPES[kind]} --entity-name {quote(name)}" for kind, name in entity.parts())
        yield (
            f"the {key} of {entity} is {value_text(options.value)}, the value of a lease, but no lease is open on it: "
            f"unless someone set it on purpose, clear it with kafka-configs.sh --alter {names} --delete-config {key}"
        )
    if len(alike) > _MOST:
        yield f"{len(alike) - _MOST} more quotas have that value without a lease"
