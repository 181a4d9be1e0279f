"""Refuses names under which no user would find a quota."""

from datetime import datetime

from quota.errors import InvalidQuotaError
from quota.typed import quoted
from tables.query.principal_facts import is_known
from tables.quotas.quota_table import quota_names

_KINDS = ("user", "users", "group", "groups")
"""What people write before a bare name."""


def check_name(tables: str, name: str, now: datetime) -> None:
    """Refuse a name that no user has, unless it has a quota already, which then can be changed and deleted.

    Raises:
        InvalidQuotaError: If no user has this name.
        TableError: If a table can't be read.
    """
    mistake = _mistake(name)
    if mistake is None:
        return
    is_text = _is_text(name)
    if is_text and (is_known(tables, f"User:{name}", now) or name in quota_names(tables)):
        return
    msg = f"{quoted(name) if is_text else repr(name)} {mistake}"
    raise InvalidQuotaError(msg)


def _mistake(name: str) -> str | None:
    kind, colon, bare = name.partition(":")
    if not _is_text(name):
        return "is not valid UTF-8: check the encoding"
    if name != name.strip(" "):
        return f"begins or ends with a blank: write {quoted(name.strip(' '))}"
    if colon and kind.casefold() in _KINDS:
        if not bare:
            return "has no name: write one, such as alice"
        return _of_everybody(bare) or f"is a principal: quotas take the bare name, {quoted(bare)}"
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
