"""Finds in ACLs who may write to a topic or use a transactional id, as Kafka's StandardAuthorizer does.

ACLs do not name super users, who may write everything.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from operator import and_

from broker.kafka.acls import ANY_HOST, EVERYONE, Acl, AclResource

_ALL = "*"
_INTERNAL = "__"


class OwnerReason(str, Enum):
    """Why ACLs give no owner."""

    NO_ACL = "no_acl"
    EVERYBODY = "everybody"
    SEVERAL = "several"
    NOBODY = "nobody"


@dataclass(frozen=True)
class Writers:
    """A set of principals: `names` or, with `everybody`, all except `names`. `doubt` tells why the set is uncertain."""

    names: frozenset[str] = frozenset()
    everybody: bool = False
    doubt: OwnerReason | None = None

    def __contains__(self, principal: str) -> bool:
        return (principal in self.names) != self.everybody

    def __or__(self, other: "Writers") -> "Writers":
        if self.everybody and other.everybody:
            names = self.names & other.names
        elif self.everybody or other.everybody:
            but, added = (self.names, other.names) if self.everybody else (other.names, self.names)
            names = but - added
        else:
            names = self.names | other.names
        return Writers(names, self.everybody or other.everybody, self.doubt or other.doubt)

    def __and__(self, other: "Writers") -> "Writers":
        either = self._others() | other._others()
        return Writers(either.names, not either.everybody, self.doubt and other.doubt)

    def _others(self) -> "Writers":
        return Writers(self.names, not self.everybody)


@dataclass(frozen=True)
class Owner:
    """The owner of a producer id. If the owner is uncertain, `principal` is None, and `reason` tells why."""

    principal: str | None = None
    reason: OwnerReason | None = None
    candidates: tuple[str, ...] = ()


class AclRules:
    """The ACLs of a cluster at one time. With `allows_without_acl`, everybody may use resources without an ACL."""

    def __init__(self, acls: Iterable[Acl], *, allows_without_acl: bool) -> None:
        self._without_acl = Writers(everybody=allows_without_acl, doubt=OwnerReason.NO_ACL)
        self._by_pattern: dict[tuple[AclResource, bool, str], list[Acl]] = defaultdict(list)
        for acl in acls:
            self._by_pattern[acl.resource, acl.pattern == "prefixed", acl.name].append(acl)
        self._prefix_lengths = sorted({len(name) for _, is_prefix, name in self._by_pattern if is_prefix})

    def may_write(self, principal: str, host: str, resource: AclResource, name: str) -> bool:
        """Whether a principal that is not a super user may write from a host."""
        acls = self._matching(resource, name)
        return _permits(acls, principal, host) if acls else self._without_acl.everybody

    def writers(self, resource: AclResource, name: str) -> Writers:
        """Return the principals that may write from at least one host, without super users."""
        acls = self._matching(resource, name)
        return _writers(acls) if acls else self._without_acl

    def _matching(self, resource: AclResource, name: str) -> list[Acl]:
        prefixes = [name[:length] for length in self._prefix_lengths if length <= len(name)]
        patterns = [(False, literal) for literal in {name, _ALL}] + [(True, prefix) for prefix in prefixes]
        return [acl for is_prefix, text in patterns for acl in self._by_pattern.get((resource, is_prefix, text), ())]


class AclOwners:
    """Owners of producer ids by a cluster's ACLs."""

    def __init__(self, rules: AclRules) -> None:
        self._rules = rules
        self._cached: dict[tuple[frozenset[str], str | None], Owner] = {}

    def owner(self, topics: frozenset[str], transactional_id: str | None) -> Owner:
        """Return the owner of a producer id: the only principal that may write all its topics and use its name.

        Topics of Kafka itself do not count, because brokers write them for clients.
        """
        owner = self._cached.get((topics, transactional_id))
        if owner is None:
            parts = [(AclResource.TOPIC, each) for each in sorted(topics) if not each.startswith(_INTERNAL)]
            if transactional_id is not None:
                parts.append((AclResource.TRANSACTIONAL_ID, transactional_id))
            writers = [self._rules.writers(*each) for each in parts]
            owner = _owner(reduce(and_, writers)) if writers else Owner(reason=OwnerReason.NO_ACL)
            self._cached[topics, transactional_id] = owner
        return owner


def _permits(acls: Sequence[Acl], principal: str, host: str) -> bool:
    """Return False if a DENY matches, else whether an ALLOW matches."""
    fitting = [
        acl.permission == "allow"
        for acl in acls
        if acl.operation in ("all", "write") and acl.principal in (principal, EVERYONE) and acl.host in (host, ANY_HOST)
    ]
    return bool(fitting) and all(fitting)


def _writers(acls: Sequence[Acl]) -> Writers:
    # An ACL with a wildcard also covers principals and hosts that no ACL names.
    hosts = {acl.host for acl in acls}
    principals = {acl.principal for acl in acls}
    permitted = {who for who in principals if any(_permits(acls, who, host) for host in hosts)}
    if EVERYONE in permitted:
        return Writers(frozenset(principals - permitted), everybody=True)
    return Writers(frozenset(permitted))


def _owner(writers: Writers) -> Owner:
    if writers.everybody:
        return Owner(reason=writers.doubt or OwnerReason.EVERYBODY)
    if not writers.names:
        return Owner(reason=writers.doubt or OwnerReason.NOBODY)
    names = tuple(sorted(writers.names))
    return Owner(names[0]) if len(names) == 1 else Owner(reason=OwnerReason.SEVERAL, candidates=names)
