"""Whether refusals work on a cluster, and on whom: only where what is known of it proves so. No I/O."""

from collections.abc import Collection, Iterator

from broker.cluster.acl_bindings import EVERYONE, AclBinding
from broker.cluster.broker_settings import AUTHORIZER
from broker.cluster.refusal_bindings import HARDCODE, allows_everyone, denials, refused_principals
from broker.cluster.refusal_facts import RefusalFacts
from wire.holds import HOLD_AUTHORIZER

ALLOW_EVERYONE_SETTING = "allow.everyone.if.no.acl.found"
SUPER_USERS_SETTING = "super.users"
_AUTHORIZERS = ("org.apache.kafka.metadata.authorizer.StandardAuthorizer", HOLD_AUTHORIZER)
_WRITES = ("write", "all")


def trouble_of_cluster(facts: RefusalFacts) -> str:
    """Return why nobody can be refused new producer ids, or an empty string."""
    return next(_troubles_of_cluster(facts), "")


def trouble_of_principal(facts: RefusalFacts, principal: str) -> str:
    """Return why a principal can't be refused new producer ids where others can, or an empty string."""
    return next(_troubles_of_principal(facts, principal), "")


def _troubles_of_cluster(facts: RefusalFacts) -> Iterator[str]:
    others = [number for number, settings in facts.settings.items() if settings.get(AUTHORIZER) not in _AUTHORIZERS]
    if others:
        yield f"{_brokers(others)} no StandardAuthorizer"
    if facts.has_hardcode:
        yield f"there is a topic {HARDCODE!r}, which a refusal would close to everybody"
    if facts.cluster and not allows_everyone(facts.cluster):
        yield "the cluster has ACLs, and none that allows everyone: to add that one would open it"
    if not facts.cluster:
        yield from _troubles_of_open_cluster(facts)
    for principal in sorted(_half_refused(facts)):
        yield (
            f"{principal} is denied IdempotentWrite on the cluster or Write on topic {HARDCODE!r}, not both, "
            f"and not by us"
        )


def _troubles_of_open_cluster(facts: RefusalFacts) -> Iterator[str]:
    """Whether all may do all on a cluster without ACLs: else the ALLOW for everyone would give rights away."""
    values = {number: settings.get(ALLOW_EVERYONE_SETTING, "false") for number, settings in facts.settings.items()}
    closed = [number for number, value in values.items() if value is not None and value.strip().lower() != "true"]
    if closed:
        yield f"{_brokers(closed)} no {ALLOW_EVERYONE_SETTING}=true"
    # Brokers show such settings by name only. But they let us read their settings, which on a cluster without ACLs is
    # allowed to super users, and to everyone if everyone is.
    hidden = {number for number, value in values.items() if value is None}
    unproven = sorted(hidden - facts.ordinary_on) if facts.ordinary_on is not None else []
    if unproven:
        yield (
            f"{_brokers(unproven)} a hidden value of {ALLOW_EVERYONE_SETTING}, and the enforcer's own user is allowed "
            f"all there anyway: run it as a user that is no super user"
        )


def _troubles_of_principal(facts: RefusalFacts, principal: str) -> Iterator[str]:
    names = [(number, settings.get(SUPER_USERS_SETTING)) for number, settings in facts.settings.items()]
    super_on = [number for number, value in names if principal in [name.strip() for name in (value or "").split(";")]]
    if super_on:
        yield f"{_brokers(super_on)} {principal} among its {SUPER_USERS_SETTING}"
    for binding in facts.topics:
        if (
            binding.permission == "allow"
            and binding.operation in _WRITES
            and binding.principal in (principal, EVERYONE)
        ):
            yield (
                f"an ACL allows {binding.principal} to write to topic {binding.name!r} ({binding.pattern}), and "
                f"whoever may write somewhere gets producer ids"
            )


def _half_refused(facts: RefusalFacts) -> set[str]:
    """Principals that a refusal would change, or that one of somebody else would: others' denials of just one."""
    denied = {each.principal for each in facts.cluster if _denies_idempotence(each)}
    denied |= {each.principal for each in facts.topics if each in denials(each.principal)}
    return denied - refused_principals((*facts.cluster, *facts.topics))


def _denies_idempotence(binding: AclBinding) -> bool:
    return binding.permission == "deny" and binding.operation in ("all", "idempotent_write")


def _brokers(numbers: Collection[int]) -> str:
    one, verb = ("broker", "has") if len(numbers) == 1 else ("brokers", "have")
    return f"{one} {', '.join(map(str, numbers))} {verb}"
