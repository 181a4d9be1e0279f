"""Refuses names under which no user would find a quota."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from quota.errors import InvalidQuotaError
from quota.principals import entity_name
from quota.typed import quoted
from tables.query.principal_facts import is_known, principals_of_other_types
from tables.quotas.quota_table import quota_names

_KINDS = ("user", "users", "group", "groups")
"""What people write before a bare name. Other types count if tables have the principal."""

_IS_PRINCIPAL = "is a principal: quotas take the bare name, {}"


@dataclass(frozen=True)
class QuotaNames:
    """Checks of names for quotas in `tables`, where principals of requests until `now` are known."""

    tables: str
    now: datetime

    def check(self, name: str) -> None:
        """Refuse a name that no user has, unless it has a quota already, which then can be changed and deleted.

        Raises:
            InvalidQuotaError: If no user has this name.
            TableError: If a table can't be read.
        """
        if not _is_text(name):
            msg = f"{name!r} is not valid UTF-8: check the encoding"
            raise InvalidQuotaError(msg)
        mistake = _mistake(name)
        if mistake is None and ":" in name and name in self._of_other_types:
            mistake = _IS_PRINCIPAL.format(quoted(entity_name(name)))
        if mistake is None or self._is_in_use(name):
            return
        msg = f"{quoted(name)} {mistake}"
        raise InvalidQuotaError(msg)

    @cached_property
    def _of_other_types(self) -> set[str]:
        return principals_of_other_types(self.tables, self.now)

    def _is_in_use(self, name: str) -> bool:
        return is_known(self.tables, f"User:{name}", self.now) or name in quota_names(self.tables)


def _mistake(name: str) -> str | None:
    kind, colon, bare = name.partition(":")
    if name != name.strip(" "):
        return f"begins or ends with a blank: write {quoted(name.strip(' '))}"
    if colon and kind.casefold() in _KINDS:
        if not bare:
            return "has no name: write one, such as alice"
        return _of_everybody(bare) or _IS_PRINCIPAL.format(quoted(bare))
    if "," in name and "=" not in name:
        return "is not one user: set the quota of each of several"
    return _of_everybody(name)


def _of_everybody(name: str) -> str | None:
    if name in ("", "*", "<default>"):
        return "is not a user: for the default quota, use --entity-default, or the name <default> in a file"
    return None


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
