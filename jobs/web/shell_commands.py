"""The commands that pages offer to copy, because the console changes nothing itself."""

import re
import shlex
from pathlib import Path

from quota.allowance import BURST, RATE, Allowance
from tables.store.open import is_folder

_UNTYPABLE = re.compile(r"[\\']|[^ -~]")


def set_quota(tables: str, name: str | None, allowance: Allowance) -> str:
    """Return the command that sets the quota of user `name`, or the default quota if it is None."""
    numbers = {RATE: allowance.producer_ids_rate, BURST: allowance.producer_ids_burst}
    config = ",".join(f"{key}={number:.15g}" for key, number in numbers.items() if number is not None)
    return _alter(tables, name, "--add-config", config)


def delete_quota(tables: str, name: str | None) -> str:
    """Return the command that deletes the quota of user `name`, or the default quota if it is None."""
    return _alter(tables, name, "--delete-config", RATE)


def release(bootstrap_servers: str, principal: str | None) -> str:
    """Return the command that ends the hold of a principal, or of everybody if it is None."""
    servers = ("--bootstrap-server", bootstrap_servers) if bootstrap_servers else ()
    return typed(("pid-quota", "release", *servers, "--all" if principal is None else principal))


def _alter(tables: str, name: str | None, *change: str) -> str:
    # A reader's shell is in another folder than the console.
    where = str(Path(tables).absolute()) if is_folder(tables) else tables
    who = ("--entity-default",) if name is None else ("--entity-name", name)
    return typed(("pid-quota", "quotas", "--tables", where, "--alter", "--entity-type", "users", *who, *change))


def typed(words: tuple[str, ...]) -> str:
    r"""Return words as a command to paste into a shell.

    Names come from strangers. A control character would act on the terminal into which it is pasted, even within
    quotation marks, so such a word is written with escapes in `$'…'` (POSIX.1-2024).

    Examples:
        >>> print(typed(("release", "User:o'neill")), typed(("release", "User:a\x03rm")))
        release 'User:o'"'"'neill' release $'User:a\003rm'
    """
    return " ".join(shlex.quote(word) if word.isprintable() else _escaped(word) for word in words)


def _escaped(word: str) -> str:
    return "$'" + _UNTYPABLE.sub(lambda found: "".join(f"\\{byte:03o}" for byte in found[0].encode()), word) + "'"
