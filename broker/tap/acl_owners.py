"""Finds in ACLs who may write to a topic or use a transactional id, as Kafka's StandardAuthorizer does.

ACLs do not name super users, who may write everything.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from operator import or_

from broker.kafka.acls import ANY_HOST, EVERYONE, Acl, AclResource

_ALL = "*"
_KEPT_READS = 3
_KEPT_SECONDS = 20.0


class OwnerReason(str, Enum):
    """Why ACLs give no owner."""

    NO_ACL = "no_acl"
    EVERYBODY = "everybody"
    SEVERAL = "several"
    NOBODY = "nobody"
    UNREADABLE = "unreadable"


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


class AclHistory:
    """The ACLs of a poll's last rounds, because a batch may have been written under older ACLs."""

    def __init__(self, *, allows_without_acl: bool) -> None:
        self._allows_without_acl = allows_without_acl
        self._sets: dict[frozenset[Acl] | None, _Kept] = {}
        self._reads = 0
        self._cached: dict[tuple[str, str | None], Owner] = {}

    def read(self, acls: frozenset[Acl] | None, now: float) -> None:
        """Add the current ACLs; None if this user may not read them."""
        self._reads += 1
        # Clear the cache also because the number of transactional ids is unlimited.
        self._cached = {}
        kept = self._sets.pop(acls, None)
        if kept is not None or acls is None:
            rules = kept.rules if kept else None
        else:
            rules = AclRules(acls, allows_without_acl=self._allows_without_acl)
        # The newest ACLs come first, so that their doubts are reported.
        self._sets = {acls: _Kept(rules, self._reads, now)} | {
            key: old
            for key, old in self._sets.items()
            if self._reads - old.read <= _KEPT_READS or now - old.at <= _KEPT_SECONDS
        }

    def owner(self, topic: str, transactional_id: str | None) -> Owner:
        """Return the owner of a producer id: the only principal that may use both topic and transactional id."""
        owner = self._cached.get((topic, transactional_id))
        if owner is None:
            writers = self._writers(AclResource.TOPIC, topic)
            if transactional_id is not None:
                writers &= self._writers(AclResource.TRANSACTIONAL_ID, transactional_id)
            owner = self._cached[topic, transactional_id] = _owner(writers)
        return owner

    def _writers(self, resource: AclResource, name: str) -> Writers:
        unreadable = Writers(everybody=True, doubt=OwnerReason.UNREADABLE)
        each = (kept.rules.writers(resource, name) if kept.rules else unreadable for kept in self._sets.values())
        return reduce(or_, each)


@dataclass(frozen=True)
class _Kept:
    rules: AclRules | None
    read: int
    at: float


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
