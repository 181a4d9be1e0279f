"""Maps producer ids to principals by patterns in an owners file, for clusters without logs.

YAML:

    - transactional_id: billing-*
      principal: User:billing
    - topic: orders.*
      principal: User:shop

CSV has the columns `topic`, `transactional_id` and `principal`. `*` stands for any text, `?` for one character.
"""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import translate
from pathlib import Path

import yaml

from broker.errors import OwnersFileError

_FIELDS = frozenset({"topic", "transactional_id", "principal"})


@dataclass(frozen=True)
class OwnerRule:
    """One entry of the file; exactly one of the two patterns is set."""

    principal: str
    topic: re.Pattern[str] | None = None
    transactional_id: re.Pattern[str] | None = None


@dataclass(frozen=True)
class OwnerPatterns:
    """All entries; the first match wins, transactional ids before topics."""

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
        """Return the principal of a producer seen on a topic; None if no entry matches."""
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
