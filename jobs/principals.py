"""Reads principals as people type them."""

import re
from collections import defaultdict
from collections.abc import Collection
from difflib import get_close_matches

import typer

from quota.typed import quoted

RUN_FOR_EACH = "run the command for each of several"
REPEAT_NEVER = "repeat --never for each of several, or write semicolons between them in PID_QUOTA_NEVER"
ONE_READER = "--reader takes one user, the one that runs `pid-quota run`"

_USER = "User:"
_MAX_SIMILAR = 3
# A name may contain commas, blanks and bars, so they separate users only before another whole user.
_SEVERAL = re.compile(r";|(?:[,|\s]|\\[nrt])\s*user:|(?<![,+\s])\s+CN=", re.IGNORECASE)


def read_user(text: str, several: str) -> str:
    """Return the principal of the one user that a text names. Brokers hold no other type, and nobody special.

    A text that begins with `User:` is the whole principal, and one without a colon is the name of a user. Any other
    text is in doubt, because names such as `system:serviceaccount:data:etl` contain colons, and is refused.

    Args:
        text: What a person typed.
        several: What to do if the text names several users, such as `RUN_FOR_EACH`.

    Raises:
        BadParameter: If the text is not one user.

    Examples:
        >>> read_user("alice", RUN_FOR_EACH), read_user("User:CN=etl,OU=data", RUN_FOR_EACH)
        ('User:alice', 'User:CN=etl,OU=data')
    """
    if not text.strip():
        msg = "the principal is empty: write one, such as User:alice"
        raise typer.BadParameter(msg)
    _refuse_mistakes(text, several)
    principal = meanings(text)[-1]
    if principal in ("User:*", "User:ANONYMOUS"):
        msg = f"{quoted(principal)} is not one user: write one, such as User:alice"
        raise typer.BadParameter(msg)
    return principal


def meanings(text: str) -> list[str]:
    """Return the principals that a text may name.

    Examples:
        >>> meanings("alice"), meanings("User:alice"), meanings("Team:data")
        (['User:alice'], ['User:alice'], ['Team:data', 'User:Team:data'])
    """
    if text.startswith(_USER) and text != _USER:
        return [text]
    return [text, f"{_USER}{text}"] if ":" in text else [f"{_USER}{text}"]


def similar(text: str, seen: Collection[str]) -> list[str]:
    """Return up to three principals of `seen` that a text may have meant, the closest first.

    Examples:
        >>> similar("user:malory", ["User:mallory", "User:alice"])
        ['User:mallory']
    """
    folded: dict[str, list[str]] = defaultdict(list)
    for each in seen:
        folded[each.removeprefix(_USER).casefold()].append(each)
    name = text.removeprefix(_USER).casefold()
    near = [each for close in get_close_matches(name, folded, n=_MAX_SIMILAR) for each in sorted(folded[close])]
    return near[:_MAX_SIMILAR]


def _refuse_mistakes(text: str, several: str) -> None:
    """Refuse what nobody is called."""
    name = text.removeprefix(_USER)
    kind, colon, rest = name.partition(":")
    if not name:
        msg = f"{quoted(text)} has no name: write one, such as User:alice"
    elif name != name.strip():
        msg = f"{quoted(text)} begins or ends with a blank: did you mean {quoted(text.strip())}?"
    elif _SEVERAL.search(name):
        msg = f"{quoted(text)} is not one user: {several}"
    elif name != "*" and name.endswith("*"):
        msg = f"{quoted(text)} is a pattern, and only whole names count: {several}"
    elif re.search("[,|]", name) and "=" not in name and name == text:
        msg = f"{quoted(text)} is not one user: {several}, or write {quoted(_USER + text)} for the user"
    elif kind.casefold().startswith("user=") and name == text:
        msg = f"{quoted(text)} has no colon: write {quoted(_USER + text[len(_USER) :])} for the user"
    elif colon and name == text:
        meant = rest if kind.casefold() == "user" else text
        msg = f"{quoted(text)} is not a user's whole name: write {quoted(_USER + meant)} for the user"
    else:
        return
    raise typer.BadParameter(msg)
