r"""Writes names and commands so that a person can paste them into a shell.

Names come from strangers. A control character would act on the terminal into which it is pasted, even within quotation
marks, so such a word is written with escapes in `$'…'` (POSIX.1-2024).
"""

import re
import shlex
from collections.abc import Iterable

_UNTYPABLE = re.compile(r"[\\']|[^ -~]")


def typed(words: Iterable[str]) -> str:
    r"""Return words as a command.

    Examples:
        >>> print(typed(("release", "User:o'neill")), typed(("release", "User:a\x03rm")))
        release 'User:o'"'"'neill' release $'User:a\003rm'
    """
    return " ".join(shlex.quote(word) if word.isprintable() else _escaped(word) for word in words)


def quoted(word: str) -> str:
    r"""Return a word in quotation marks, for messages.

    Examples:
        >>> print(quoted("alice"), quoted(r"CN=app,O=Acme\, Inc."))
        'alice' 'CN=app,O=Acme\, Inc.'
    """
    text = typed((word,))
    return text if text.startswith(("'", "$'")) else f"'{text}'"


def _escaped(word: str) -> str:
    return "$'" + _UNTYPABLE.sub(lambda found: "".join(f"\\{byte:03o}" for byte in found[0].encode()), word) + "'"
