"""Reads principals as people type them."""

from collections.abc import Collection
from difflib import get_close_matches

import typer

from quota.typed import quoted

_USER = "User:"
_MAX_SIMILAR = 3
_SEVERAL = (";", ",User:")


def read_principal(text: str, seen: Collection[str] | None = None) -> str:
    """Return the principal that a text names.

    A text that begins with `User:` is the whole principal, and one without a colon is the name of a user. Any other
    text is in doubt: names such as `system:serviceaccount:data:etl` contain colons, and a broker's own
    `principal.builder.class` may make other types. `seen` decides, and without it the text is refused.

    Args:
        text: such as `alice`, `User:alice`, `spiffe://example.org/etl`.
        seen: principals that exist; None if nobody can tell.

    Raises:
        BadParameter: If the text names no principal, several ones, or one that `seen` does not have.

    Examples:
        >>> read_principal("alice"), read_principal("Team:data", seen={"Team:data", "User:alice"})
        ('User:alice', 'Team:data')
        >>> read_principal("system:serviceaccount:data:etl", seen={"User:system:serviceaccount:data:etl"})
        'User:system:serviceaccount:data:etl'
    """
    if not text.strip():
        msg = "the principal is empty: write one, such as User:alice"
        raise typer.BadParameter(msg)
    found = [each for each in meanings(text) if each in (seen or ())]
    if len(found) > 1:
        msg = f"{quoted(text)} is a principal, and the name of another: write {' or '.join(map(quoted, found))}"
        raise typer.BadParameter(msg)
    if found:
        return found[0]
    if seen is not None:
        msg = f"no principal {quoted(meanings(text)[-1])} is known here{_similar_text(text, seen)}"
        raise typer.BadParameter(msg)
    _refuse_mistakes(text)
    return meanings(text)[-1]


def read_user(text: str) -> str:
    """Return the principal of one user as `read_principal` does. Brokers hold no other type, and nobody special.

    Raises:
        BadParameter: If the text is not one user.

    Examples:
        >>> read_user("User:CN=etl,OU=data")
        'User:CN=etl,OU=data'
    """
    principal = read_principal(text)
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
    folded = {each.removeprefix(_USER).casefold(): each for each in seen}
    name = text.removeprefix(_USER).casefold()
    return [folded[each] for each in get_close_matches(name, folded, n=_MAX_SIMILAR)]


def _similar_text(text: str, seen: Collection[str]) -> str:
    names = " or ".join(map(quoted, similar(text, seen)))
    return f". Did you mean {names}?" if names else ""


def _refuse_mistakes(text: str) -> None:
    """Refuse what nobody is called, where nobody can be asked."""
    name = text.removeprefix(_USER)
    kind, colon, rest = name.partition(":")
    if not name:
        msg = f"{quoted(text)} has no name: write one, such as User:alice"
    elif name != name.strip():
        msg = f"{quoted(text)} begins or ends with a blank: did you mean {quoted(text.strip())}?"
    elif any(sign in name for sign in _SEVERAL):
        msg = f"{quoted(text)} is not one user: repeat the option for each of several"
    elif "," in name and "=" not in name and name == text:
        msg = (
            f"{quoted(text)} is not one user: repeat the option for each, or write {quoted(_USER + text)} for the user"
        )
    elif colon and name == text:
        meant = rest if kind.casefold() == "user" else text
        msg = f"{quoted(text)} is not a user's whole name: write {quoted(_USER + meant)} for the user"
    else:
        return
    raise typer.BadParameter(msg)
