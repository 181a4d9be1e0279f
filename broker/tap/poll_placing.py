"""Finds the owners of polled producer ids: by an owners file, else by the cluster's ACLs."""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import translate
from pathlib import Path

import yaml

from broker.errors import ClusterRequestError, OwnersFileError
from broker.kafka.acls import Acls
from broker.tap.acl_owners import AclHistory, Owner, OwnerReason

_EXAMPLES = 3
_NO_ENTRY = Owner()
_FIELDS = frozenset({"topic", "transactional_id", "principal"})


@dataclass(frozen=True)
class OwnerRule:
    """An entry of an owners file. Exactly one of the patterns is set."""

    principal: str
    topic: re.Pattern[str] | None = None
    transactional_id: re.Pattern[str] | None = None


@dataclass(frozen=True)
class OwnerPatterns:
    """The entries of an owners file. The first match counts. Entries for transactional ids come before other entries.

    A YAML file is a list of entries `transactional_id: billing-*` or `topic: orders.*`, each with `principal:
    User:billing`. A CSV file has these names as columns. `*` matches any text, and `?` matches one character.
    """

    rules: Sequence[OwnerRule]

    @classmethod
    def load(cls, file: Path) -> "OwnerPatterns":
        """Read a .yaml, .yml or .csv file."""
        try:
            text = file.read_text(encoding="utf-8")
            entries = list(csv.DictReader(text.splitlines())) if file.suffix == ".csv" else yaml.safe_load(text)
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            msg = f"can't read owners file {file} ({error}): check the path and the syntax"
            raise OwnersFileError(msg) from error
        if not isinstance(entries, list):
            msg = f"owners file {file} is not a list of entries: begin each with '- ', such as '- topic: orders'"
            raise OwnersFileError(msg)
        return cls([_rule(entry, f"{file}, entry {number}") for number, entry in enumerate(entries, start=1)])

    @property
    def by_transactional_id(self) -> bool:
        """Whether any entry matches transactional ids."""
        return any(rule.transactional_id for rule in self.rules)

    def of(self, topic: str, transactional_id: str | None) -> str | None:
        """Return the principal of a producer on a topic; None if no entry matches."""
        if transactional_id is not None:
            for rule in self.rules:
                if rule.transactional_id and rule.transactional_id.match(transactional_id):
                    return rule.principal
        for rule in self.rules:
            if rule.topic and rule.topic.match(topic):
                return rule.principal
        return None


def _rule(entry: object, where: str) -> OwnerRule:
    given = {name: text for name, text in entry.items() if text} if isinstance(entry, dict) else {}
    strange = sorted(str(name) for name in given if name not in _FIELDS)
    if strange or "principal" not in given or ("topic" in given) == ("transactional_id" in given):
        msg = (
            f"{where} holds {', '.join(strange or sorted(map(str, given))) or 'nothing'}: "
            f"write principal and one of topic and transactional_id"
        )
        raise OwnersFileError(msg)
    principal = str(given["principal"])
    if ":" not in principal:
        msg = f"{where} has the principal {principal!r}: write it with its type, 'User:{principal}'"
        raise OwnersFileError(msg)
    topic, transactional_id = given.get("topic"), given.get("transactional_id")
    return OwnerRule(
        principal,
        topic=re.compile(translate(str(topic))) if topic else None,
        transactional_id=re.compile(translate(str(transactional_id))) if transactional_id else None,
    )


@dataclass(frozen=True)
class UnattributedTopic:
    """A topic whose producer ids have no owner, and some of the principals that may write it."""

    topic: str
    producer_ids: int
    principals: tuple[str, ...] = ()
    more_principals: int = 0


@dataclass(frozen=True)
class Unattributed:
    """Producer ids without an owner for one reason, and the topics with most of them."""

    reason: OwnerReason
    producer_ids: int
    topics: tuple[UnattributedTopic, ...]
    more_topics: int


@dataclass(frozen=True)
class PollPlacement:
    """Numbers of a round's producer ids with and without an owner. Each id counts once."""

    producer_ids: int
    by_file: int
    by_acls: int
    unattributed: tuple[Unattributed, ...]


class PollOwners:
    """Owners of producer ids. Entries of the file take precedence over ACLs."""

    def __init__(self, patterns: OwnerPatterns | None, *, from_acls: bool) -> None:
        self._patterns = patterns
        self._from_acls = from_acls
        self._history: AclHistory | None = None

    @property
    def by_transactional_id(self) -> bool:
        """Whether owners depend on transactional ids."""
        return self._from_acls or (self._patterns is not None and self._patterns.by_transactional_id)

    def begin(self, acls: Acls, now: float) -> None:
        """Read the ACLs for the first time."""
        if self._from_acls:
            found = acls.for_writers()
            # If the brokers' rule is unknown, assume that everybody may use resources without an ACL.
            self._history = AclHistory(allows_without_acl=acls.allows_without_acl() is not False)
            self._history.read(found, now)

    def follow(self, acls: Acls, now: float) -> None:
        """Read the ACLs again. If this user may no longer read them, no owner is certain."""
        if self._history is not None:
            try:
                found = acls.for_writers()
            except ClusterRequestError:
                self._history.read(None, now)
            else:
                self._history.read(found, now)

    def of(self, topic: str, transactional_id: str | None) -> Owner:
        """Return the owner of a producer id on a topic."""
        return self._by_file(topic, transactional_id) or self._by_acls(topic, transactional_id)

    def placement(self, found: Iterable[tuple[str, str | None]]) -> PollPlacement | None:
        """Count pairs of topic and transactional id with and without an owner; return None without ACLs."""
        if self._history is None:
            return None
        by_file = by_acls = 0
        counts: dict[OwnerReason, Counter[str]] = {}
        owners: dict[tuple[OwnerReason, str], Owner] = {}
        for (topic, name), count in Counter(found).items():
            if self._by_file(topic, name):
                by_file += count
                continue
            owner = self._by_acls(topic, name)
            if owner.reason is None:
                by_acls += count
            else:
                counts.setdefault(owner.reason, Counter())[topic] += count
                owners.setdefault((owner.reason, topic), owner)
        unattributed = tuple(_unattributed(reason, topics, owners) for reason, topics in sorted(counts.items()))
        return PollPlacement(
            by_file + by_acls + sum(each.producer_ids for each in unattributed), by_file, by_acls, unattributed
        )

    def _by_file(self, topic: str, transactional_id: str | None) -> Owner | None:
        principal = None if self._patterns is None else self._patterns.of(topic, transactional_id)
        return None if principal is None else Owner(principal)

    def _by_acls(self, topic: str, transactional_id: str | None) -> Owner:
        return _NO_ENTRY if self._history is None else self._history.owner(topic, transactional_id)


def _unattributed(
    reason: OwnerReason, counts: Counter[str], owners: dict[tuple[OwnerReason, str], Owner]
) -> Unattributed:
    topics = [
        UnattributedTopic(topic, count, candidates[:_EXAMPLES], max(0, len(candidates) - _EXAMPLES))
        for topic, count in counts.most_common(_EXAMPLES)
        for candidates in [owners[reason, topic].candidates]
    ]
    return Unattributed(reason, counts.total(), tuple(topics), len(counts) - len(topics))
