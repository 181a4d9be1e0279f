"""Finds quotas with our leases' value, and holds, without a lease: an operator has to decide about them."""

from collections.abc import Collection, Iterator, Mapping
from shlex import quote

from broker.cluster.client_quotas import QuotaChange
from broker.cluster.hold_bindings import HOLD
from broker.cluster.quota_entity import QuotaEntity
from broker.enforcer.notices import lever_text, value_text
from broker.enforcer.ports import QuotaStore
from broker.errors import BrokerError
from broker.leases.lease_plan import EnforcerOptions
from wire.holds import LONGEST_HOLD_MS, hold_name

_MOST = 10
_TYPES = {"user": "users", "client-id": "clients", "ip": "ips"}


def orphans(
    quotas: QuotaStore, options: EnforcerOptions, leases: Collection[QuotaEntity], now_ms: int
) -> Iterator[str]:
    """Yield a warning for each quota that has the value of our leases but belongs to none, and each such hold.

    Holds that are over are removed.

    Args:
        quotas: The broker's client quotas.
        options: The lever and its value.
        leases: Entities of the known leases.
        now_ms: Wall clock, in milliseconds since the epoch.
    """
    try:
        found = quotas.describe_all()
    except BrokerError:
        # The next step on the broker reports the same error.
        return
    yield from _stray_holds(quotas, found, leases, now_ms)
    key = options.quota_key
    alike = [entity for entity, values in found.items() if values.get(key) == options.value and entity not in leases]
    for entity in alike[:_MOST]:
        names = " ".join(f"--entity-type {_TYPES[kind]} --entity-name {quote(name)}" for kind, name in entity.parts())
        yield (
            f"the {key} of {entity} is {value_text(options.value)}, the value of a lease, but no lease is open on it: "
            f"unless someone set it on purpose, clear it with kafka-configs.sh --alter {names} --delete-config {key}"
        )
    if len(alike) > _MOST:
        yield f"quotas with that value, without a lease, and not named here: {len(alike) - _MOST}"


def _stray_holds(
    quotas: QuotaStore, found: Mapping[QuotaEntity, Mapping[str, float]], leases: Collection[QuotaEntity], now_ms: int
) -> Iterator[str]:
    ends = {entity: values[HOLD] for entity, values in found.items() if HOLD in values and entity not in leases}
    over = [QuotaChange(entity, HOLD, None) for entity, end in ends.items() if end <= now_ms]
    if over:
        quotas.alter(over)
    for entity, end in [(entity, end) for entity, end in ends.items() if end > now_ms][:_MOST]:
        principal, name = quote(f"User:{entity.user}"), hold_name(round(end))
        what = "brokers ignore it" if end > now_ms + LONGEST_HOLD_MS else "that ends by itself"
        yield (
            f"{entity} are on hold {lever_text(HOLD, end)}, and no lease is open on them: {what}, or "
            f"clear it with kafka-acls.sh --remove --deny-principal {principal} --operation Write --topic {name}"
        )
