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

    def __and__(self, other: "Writers") -> "Writers":
        if self.everybody and other.everybody:
            names = self.names | other.names
        elif self.everybody or other.everybody:
            names, but = (other.names, self.names) if self.everybody else (self.names, other.names)
            names -= but
        else:
            names = self.names & other.names
        return Writers(names, self.everybody and other.everybody, self.doubt and other.doubt)


@dataclass(frozen=True)
class Owner:
    """The owner of a producer id. If the owner is uncertain, `principal` is None, and `reason` tells why."""

    principal: str | None = None
    reason: OwnerReason | None = None
    candidates: tuple[str, ...] = ()


class AclOwners:
    """Owners of producer ids by a cluster's ACLs at one time.

    With `allows_without_acl`, everybody may use resources without an ACL.
    """

    def __init__(self, acls: Iterable[Acl], *, allows_without_acl: bool) -> None:
        self._without_acl = Writers(everybody=allows_without_acl, doubt=OwnerReason.NO_ACL)
        self._by_pattern: dict[tuple[AclResource, bool, str], list[Acl]] = defaultdict(list)
        for acl in acls:
            self._by_pattern[acl.resource, acl.pattern == "prefixed", acl.name].append(acl)
        self._prefix_lengths = sorted({len(name) for _, is_prefix, name in self._by_pattern if is_prefix})
        self._cached: dict[tuple[frozenset[str], str | None], Owner] = {}

    def owner(self, topics: frozenset[str], transactional_id: str | None) -> Owner:
        """Return the owner of a producer id: the only principal that may write all its topics and use its name.

        Super users do not count. Nor do topics of Kafka itself, because brokers write them for clients.
        """
        owner = self._cached.get((topics, transactional_id))
        if owner is None:
            parts = [(AclResource.TOPIC, each) for each in sorted(topics) if not each.startswith(_INTERNAL)]
            if transactional_id is not None:
                parts.append((AclResource.TRANSACTIONAL_ID, transactional_id))
            writers = [self._writers(*each) for each in parts]
            owner = _owner(reduce(and_, writers)) if writers else Owner(reason=OwnerReason.NO_ACL)
            self._cached[topics, transactional_id] = owner
        return owner

    def matching(self, resource: AclResource, name: str) -> list[Acl]:
        """Return the ACLs of a resource."""
        prefixes = [name[:length] for length in self._prefix_lengths if length <= len(name)]
        patterns = [(False, literal) for literal in {name, _ALL}] + [(True, prefix) for prefix in prefixes]
        return [acl for is_prefix, text in patterns for acl in self._by_pattern.get((resource, is_prefix, text), ())]

    def _writers(self, resource: AclResource, name: str) -> Writers:
        acls = self.matching(resource, name)
        if not acls:
            return self._without_acl
        # An ACL with a wildcard also covers principals and hosts that no ACL names.
        hosts, principals = {acl.host for acl in acls}, {acl.principal for acl in acls}
        permitted = {who for who in principals if any(permits(acls, who, host) for host in hosts)}
        if EVERYONE in permitted:
            return Writers(frozenset(principals - permitted), everybody=True)
        return Writers(frozenset(permitted))


def permits(acls: Sequence[Acl], principal: str, host: str) -> bool:
    """Return False if a DENY matches, else whether an ALLOW matches."""
    fitting = [
        acl.permission == "allow"
        for acl in acls
        if acl.operation in ("all", "write") and acl.principal in (principal, EVERYONE) and acl.host in (host, ANY_HOST)
    ]
    return bool(fitting) and all(fitting)


def _owner(writers: Writers) -> Owner:
    if writers.everybody:
        return Owner(reason=writers.doubt or OwnerReason.EVERYBODY)
    if not writers.names:
        return Owner(reason=writers.doubt or OwnerReason.NOBODY)
    names = tuple(sorted(writers.names))
    return Owner(names[0]) if len(names) == 1 else Owner(reason=OwnerReason.SEVERAL, candidates=names)
